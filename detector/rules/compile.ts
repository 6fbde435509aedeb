import { createHash } from 'node:crypto';
import type { YamlSource } from '../../protocol/yaml-source.js';
import type { DetectorParams } from '../detectors/params.js';
import { parseSpan } from './duration.js';
import { type Compiled, compileExpression, type ExpressionFault } from './expression.js';
import { type Globs, globsOf } from './globs.js';
import { muteWindow, nsOf } from './mute.js';
import type { RuleProblem } from './problem.js';
import type { Rule, RuleException, RuleExpression, RulePlace, SwitchedOff } from './rule.js';
import type { ExceptionBody, ExpressionRuleBody, KindRuleBody, RuleFileFrame, SwitchedOffBody } from './schema.js';
import { IDENTITY_FIELDS, isIdentity, parseTemplate, type Template } from './template.js';

type Group = RuleFileFrame['groups'][number];
type Path = readonly (string | number)[];

const DEFAULT_WARNING = 0.1;
const DEFAULT_CRITICAL = 0.2;
/** Labels that alerts get from the incident itself. */
const RESERVED_LABELS: ReadonlySet<string> = new Set([
  ...['alertname', 'severity', 'cause', 'incident_id', 'rule'],
  ...IDENTITY_FIELDS,
]);

/** Makes rules of what schemas have accepted, and collects what is wrong with their templates and expressions. */
export class RuleCompiler {
  readonly problems: RuleProblem[] = [];
  readonly #source: YamlSource;
  /** Labels of groups, looked at once for all their rules. */
  readonly #groupLabels = new Map<Group, Map<string, Template>>();

  constructor(source: YamlSource) {
    this.#source = source;
  }

  /** @param path of the rule in the file */
  rule(body: KindRuleBody | ExpressionRuleBody, group: Group, path: Path): Rule {
    const place = { file: this.#source.file, ...this.#source.at(path), group: group.name };
    const where = { group: group.name, rule: body.id };
    const written = this.#written(path, group);
    const { match } = body;
    if ('params' in body && match.host !== undefined)
      this.#problem(
        ...([[...path, 'params'], where, 'params'] as const),
        'parameters hold for whole jobs, and the rule is for some hosts',
        'match by job, or leave the parameters out',
      );
    return {
      id: body.id,
      kind: body.kind,
      status: body.status,
      place,
      revision: createHash('sha256').update(JSON.stringify(written)).digest('hex').slice(0, 16),
      written,
      owner: body.owner ?? group.owner,
      runbook: body.runbook ?? group.runbook,
      match: { job: globs(match.job), engine: globs(match.engine), model: globs(match.model), host: globs(match.host) },
      params: paramsOf(body),
      severity: severityOf(body),
      hold: parseSpan(body.for),
      keepFiring: parseSpan(body.keep_firing_for),
      reopenWithin: parseSpan(body.reopen_within),
      noData: body.noData,
      labels: new Map([
        ...this.#labelsOfGroup(group, path.slice(0, 2)),
        ...this.#labels(body.labels, [...path, 'labels'], where),
      ]),
      annotations: this.#templates(body.annotations, [...path, 'annotations'], where),
      exceptions: body.exceptions.map((each, i) => exceptionOf(each, this.#source.at([...path, 'exceptions', i]))),
      mute: body.mute.map(muteWindow),
      expression: 'expr' in body ? this.#expression(body, path, where) : undefined,
    };
  }

  #labelsOfGroup(group: Group, path: Path): Map<string, Template> {
    let labels = this.#groupLabels.get(group);
    if (!labels) {
      labels = this.#labels(group.labels, [...path, 'labels'], { group: group.name });
      this.#groupLabels.set(group, labels);
    }
    return labels;
  }

  /** Checks the texts of a rule that its schema has refused, so that all its mistakes are told at once. */
  checkTexts(fields: object, path: Path, where: Where): void {
    const { labels, annotations, expr, cost_ms } = fields as Record<string, unknown>;
    const texts = (given: unknown): [string, string][] =>
      Object.entries(given ?? {}).filter((entry): entry is [string, string] => typeof entry[1] === 'string');
    this.#labels(Object.fromEntries(texts(labels)), [...path, 'labels'], where);
    this.#templates(Object.fromEntries(texts(annotations)), [...path, 'annotations'], where);
    if (typeof expr === 'string') this.#compiled(compileExpression(expr, 'bool'), [...path, 'expr'], where);
    if (typeof cost_ms === 'string') this.#compiled(compileExpression(cost_ms, 'double'), [...path, 'cost_ms'], where);
  }

  switchedOff({ kind, jobs, reason, until }: SwitchedOffBody, path: Path): SwitchedOff {
    const place: Omit<RulePlace, 'group'> = { file: this.#source.file, ...this.#source.at(path) };
    return { kind, jobs: globsOf(jobs), reason, until: until === undefined ? undefined : nsOf(until), place };
  }

  #written(path: Path, { owner, runbook, labels }: Group): Record<string, unknown> {
    let value: unknown = this.#source.value;
    for (const name of path) value = (value as Record<string | number, unknown>)[name];
    const own = value as Record<string, unknown>;
    const defaults = { ...(owner && { owner }), ...(runbook && { runbook }) };
    return { ...defaults, ...own, labels: { ...labels, ...(own.labels as object | undefined) } };
  }

  #expression(body: ExpressionRuleBody, path: Path, where: Where): RuleExpression | undefined {
    const { expr, cost_ms, severity, window, per, cause } = body;
    const holds = this.#compiled(compileExpression(expr, 'bool'), [...path, 'expr'], where);
    const costMs =
      cost_ms === undefined
        ? undefined
        : this.#compiled(compileExpression(cost_ms, 'double'), [...path, 'cost_ms'], where);
    if (typeof severity === 'object' && cost_ms === undefined)
      this.#problem(
        [...path, 'severity'],
        where,
        'severity',
        'has thresholds and no cost',
        'add cost_ms, or give one severity',
      );
    return holds && { text: expr, holds, costMs, window, per, cause };
  }

  #compiled<T>(compiled: Compiled<T> | ExpressionFault, path: Path, where: Where): Compiled<T> | undefined {
    if (typeof compiled === 'function') return compiled;
    this.#fault(compiled, path, where, 'expression');
    return undefined;
  }

  #labels(texts: Readonly<Record<string, string>>, path: Path, where: Where): Map<string, Template> {
    for (const name of Object.keys(texts))
      if (RESERVED_LABELS.has(name))
        this.#problem([...path, name], where, 'labels', `label "${name}" is set by Picket`, 'use another name');
    const templates = this.#templates(texts, path, where);
    for (const [name, { fields }] of templates) {
      const measured = fields.find((field) => !isIdentity(field));
      if (measured)
        this.#problem(
          ...([[...path, name], where, 'labels'] as const),
          `"${measured}" changes while the incident lasts, and a label that changes is another alert`,
          'put it into annotations',
        );
    }
    return templates;
  }

  #templates(texts: Readonly<Record<string, string>>, path: Path, where: Where): Map<string, Template> {
    const templates = new Map<string, Template>();
    for (const [name, text] of Object.entries(texts)) {
      const template = parseTemplate(text);
      if ('message' in template) this.#fault(template, [...path, name], where, 'template');
      else templates.set(name, template);
    }
    return templates;
  }

  #fault({ at, message, remedy }: ExpressionFault, path: Path, where: Where, check: string): void {
    const position = this.#source.within(path, at);
    this.problems.push({ file: this.#source.file, ...position, ...where, level: 'error', check, message, remedy });
  }

  #problem(path: Path, where: Where, check: string, message: string, remedy: string): void {
    const position = this.#source.at(path);
    this.problems.push({ file: this.#source.file, ...position, ...where, level: 'error', check, message, remedy });
  }
}

interface Where {
  readonly group: string;
  readonly rule?: string;
}

const globs = (given: string | string[] | undefined): Globs | undefined =>
  given === undefined ? undefined : globsOf(given);

const paramsOf = (body: KindRuleBody | ExpressionRuleBody): Partial<DetectorParams> =>
  'params' in body && body.params ? { [body.kind]: body.params } : {};

function severityOf({ severity }: KindRuleBody | ExpressionRuleBody): Rule['severity'] {
  if (typeof severity === 'string') return severity;
  return { warning: severity?.warning ?? DEFAULT_WARNING, critical: severity?.critical ?? DEFAULT_CRITICAL };
}

function exceptionOf(
  { name, reason, until, match }: ExceptionBody,
  place: { line: number; col: number },
): RuleException {
  const { ranks, stages, cause, ...names } = match;
  const named = Object.entries(names).flatMap(([field, given]) =>
    given === undefined ? [] : [[field, globsOf(given)]],
  );
  return {
    name,
    reason,
    until: until === undefined ? undefined : nsOf(until),
    match: {
      names: Object.fromEntries(named),
      ranks: ranks && new Set(ranks),
      stages: stages && new Set(stages),
      causes: cause && new Set(cause),
    },
    ...place,
  };
}
