import { type Globs, globsCover } from './globs.js';
import type { RuleProblem } from './problem.js';
import type { Rule, SwitchedOff } from './rule.js';
import { UNBOUNDED_FIELDS } from './template.js';

/**
 * What loads, and yet is likely a mistake: for `picket rules check`.
 * @param now wall clock, epoch ns: what has expired by then does nothing any more
 */
export function lintRules(rules: readonly Rule[], switchedOff: readonly SwitchedOff[], now: bigint): RuleProblem[] {
  const problems = [
    ...rules.flatMap((rule) => [...unowned(rule), ...highCardinality(rule), ...expired(rule, now)]),
    ...shadowed(rules.filter(({ status, written }) => status !== 'disabled' && written.expr === undefined)),
    ...switchedOff.flatMap((each) => expiredSwitch(each, now)),
  ];
  return problems.sort((a, b) => (a.file === b.file ? a.line - b.line || a.col - b.col : a.file < b.file ? -1 : 1));
}

function warning({ place, id }: Rule, check: string, message: string, remedy: string): RuleProblem {
  const { file, line, col, group } = place;
  return { file, line, col, group, rule: id, level: 'warning', check, message, remedy };
}

/** Who is woken by a rule must know whom to ask and what to do. */
function unowned(rule: Rule): RuleProblem[] {
  if (rule.status === 'experimental' || rule.status === 'disabled') return [];
  return [
    ...(rule.owner ? [] : [warning(rule, 'owner', 'has no owner', 'add owner: to the rule or its group')]),
    ...(rule.runbook ? [] : [warning(rule, 'runbook', 'has no runbook', 'add runbook: with what to do about it')]),
  ];
}

function highCardinality(rule: Rule): RuleProblem[] {
  return [...rule.labels].flatMap(([name, { fields }]) => {
    const field = fields.find((each) => UNBOUNDED_FIELDS.has(each));
    if (!field) return [];
    const message = `label "${name}" takes as many values as there are ${field}`;
    return [warning(rule, 'cardinality', message, 'put it into annotations')];
  });
}

/** A rule that can never decide, because one before it fits all that it fits. */
function shadowed(rules: readonly Rule[]): RuleProblem[] {
  return rules.flatMap((rule, i) => {
    const other = rules.slice(0, i).find((earlier) => earlier.kind === rule.kind && covers(earlier, rule));
    if (!other) return [];
    const { file, line } = other.place;
    const message = `can never match: rule "${other.id}" (${file}:${line}) comes before it and matches all that it matches`;
    return [warning(rule, 'dead-match', message, 'put it before that rule, or narrow the match of that one')];
  });
}

const FIELDS = ['job', 'engine', 'model', 'host'] as const;
const ANYTHING: Globs = { include: [], exclude: [] };

const covers = (wide: Rule, narrow: Rule): boolean =>
  FIELDS.every((field) => !wide.match[field] || globsCover(wide.match[field], narrow.match[field] ?? ANYTHING));

function expired(rule: Rule, now: bigint): RuleProblem[] {
  return rule.exceptions
    .filter(({ until }) => until !== undefined && until <= now)
    .map(({ name, line, col }) => ({
      ...warning(rule, 'expired', `exception "${name}" has expired`, 'remove it, or give it a later until'),
      ...{ line, col },
    }));
}

function expiredSwitch({ place, kind, until }: SwitchedOff, now: bigint): RuleProblem[] {
  if (until === undefined || until > now) return [];
  const message = `${kind} is no longer switched off: the entry has expired`;
  return [{ ...place, level: 'warning', check: 'expired', message, remedy: 'remove it, or give it a later until' }];
}
