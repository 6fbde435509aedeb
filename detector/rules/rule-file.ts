import { INCIDENT_KINDS, IncidentKind } from '../../protocol/incident.js';
import { nearest } from '../../protocol/mistyped-names.js';
import type { YamlSource } from '../../protocol/yaml-source.js';
import { RuleCompiler } from './compile.js';
import { parseRuleYaml, type RuleProblem } from './problem.js';
import type { Rule, RulePlace, SwitchedOff } from './rule.js';
import { RuleFileFrame, schemaOfRule } from './schema.js';
import { schemaProblems } from './schema-problems.js';

/** A rule file as it was read. `path` is relative to the rule set's folder, with forward slashes. */
export interface RuleText {
  readonly path: string;
  readonly text: string;
}

/** What became of one file; depends on nothing but its text. */
export interface RuleFile {
  readonly path: string;
  readonly text: string;
  /** Those without errors. */
  readonly rules: readonly Rule[];
  /** Of all rules, also of those with errors. */
  readonly ids: readonly RuleId[];
  readonly switchedOff: readonly SwitchedOff[];
  readonly problems: readonly RuleProblem[];
}

export interface RuleId extends RulePlace {
  readonly id: string;
}

/** Is it a rule file, by its name? Their tests lie beside them as `*.test.yml`. */
export const isRulePath = (path: string): boolean => /\.ya?ml$/.test(path) && !isTestPath(path);
export const isTestPath = (path: string): boolean => /\.test\.ya?ml$/.test(path);

/** Parses and checks a file on its own; finds every problem, not the first only. */
export function parseRuleFile({ path, text }: RuleText): RuleFile {
  const { source, problems } = parseRuleYaml(text, path);
  return { path, text, ...(source ? new Reader(source).read() : { rules: [], ids: [], switchedOff: [], problems }) };
}

type Group = RuleFileFrame['groups'][number];

class Reader {
  readonly #source: YamlSource;
  readonly #compiler: RuleCompiler;
  readonly #problems: RuleProblem[] = [];
  readonly #ids: RuleId[] = [];

  constructor(source: YamlSource) {
    this.#source = source;
    this.#compiler = new RuleCompiler(source);
  }

  read(): Omit<RuleFile, 'path' | 'text'> {
    const frame = RuleFileFrame.safeParse(this.#source.value);
    if (!frame.success) this.#problems.push(...schemaProblems(RuleFileFrame, frame.error.issues, this.#source, [], {}));
    const groups = frame.success ? frame.data.groups : groupsOf(this.#source.value);
    const rules = groups.flatMap((group, g) => {
      if (groups.findIndex(({ name }) => name === group.name) < g) this.#repeated(group.name, g);
      return group.rules.flatMap((given, r) => this.#rule(given, group, ['groups', g, 'rules', r]));
    });
    const off = frame.data?.switched_off ?? [];
    const switchedOff = off.map((each, i) => this.#compiler.switchedOff(each, ['switched_off', i]));
    const problems = [...this.#problems, ...this.#compiler.problems];
    return { rules, ids: this.#ids, switchedOff, problems: problems.sort((a, b) => a.line - b.line || a.col - b.col) };
  }

  #rule(given: unknown, group: Group, path: readonly ['groups', number, 'rules', number]): Rule[] {
    const fields = typeof given === 'object' && given !== null ? given : {};
    const id = 'id' in fields && typeof fields.id === 'string' ? fields.id : `#${path[3] + 1}`;
    const where = { group: group.name, rule: id };
    if (!id.startsWith('#'))
      this.#ids.push({ id, file: this.#source.file, ...this.#source.at(path), group: group.name });
    const kindIsKnown = 'expr' in fields || IncidentKind.safeParse((fields as { kind?: unknown }).kind).success;
    // Of an unknown kind the fields that all kinds have are checked all the same.
    const schema = schemaOfRule(kindIsKnown ? fields : { ...fields, kind: 'comm_slow' });
    const parsed = schema.safeParse(given);
    if (parsed.success) return [this.#compiler.rule(parsed.data, group, path)];
    const issues = parsed.error.issues.filter(
      ({ path }) => kindIsKnown || !['kind', 'params'].includes(String(path[0])),
    );
    if (!kindIsKnown && fields === given) this.#unknownKind((fields as { kind?: unknown }).kind, path, where);
    this.#problems.push(...schemaProblems(schema, issues, this.#source, path, where));
    this.#compiler.checkTexts(fields, path, where);
    return [];
  }

  #unknownKind(kind: unknown, path: readonly (string | number)[], where: object): void {
    const meant = nearest(String(kind), INCIDENT_KINDS);
    this.#problems.push({
      ...{ file: this.#source.file, ...this.#source.at([...path, 'kind']), ...where, level: 'error', check: 'schema' },
      message: kind !== undefined ? '"kind" is no kind of incident' : '"kind" is missing',
      remedy: `${meant ? `did you mean "${meant}"? ` : ''}use one of ${INCIDENT_KINDS.join(', ')}`,
    });
  }

  #repeated(group: string, index: number): void {
    const position = this.#source.at(['groups', index, 'name']);
    this.#problems.push({
      ...{ file: this.#source.file, ...position, group, level: 'error', check: 'groups' },
      message: 'the file has a group of this name already',
      remedy: 'put the rules together, or rename it',
    });
  }
}

/** The groups of a file whose frame is wrong elsewhere, so that their rules are checked all the same. */
function groupsOf(value: unknown): Group[] {
  const groups = (value as { groups?: unknown } | null)?.groups;
  if (!Array.isArray(groups)) return [];
  return groups.map((group) => {
    const { name = '', rules } = (group ?? {}) as { name?: unknown; rules?: unknown };
    return { name: String(name), labels: {}, rules: Array.isArray(rules) ? rules : [] };
  });
}
