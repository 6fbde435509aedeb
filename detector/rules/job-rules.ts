import { type Incident, SEVERITIES, type Severity, severityOf } from '../../protocol/incident.js';
import { DEFAULT_PARAMS, type DetectorParams } from '../detectors/params.js';
import { NO_SPAN, parseSpan, REOPEN_WITHIN, type Span } from './duration.js';
import { globsMatch } from './globs.js';
import { isExcepted, type Judged, type Rule, type SwitchedOff } from './rule.js';
import { renderTemplate, type Template } from './template.js';

/** What the rules say of one job: the parameters of its detectors, and what becomes of each finding. */
export interface JobPolicy {
  /** Of the rules; null: there are none. */
  readonly commit: string | null;
  readonly params: DetectorParams;
  /** Rules that are expressions, by the number of steps they look at. */
  readonly expressions: ReadonlyMap<number, readonly Rule[]>;
  /**
   * Decides on a finding or an incident.
   * @param ruleId of what an expression found: only that rule may decide
   * @param now event time, epoch ns
   */
  judge(judged: Judged, ruleId: string | undefined, now: bigint): Verdict;
}

export type Verdict =
  | { readonly outcome: 'report'; readonly rule: AppliedRule }
  /** No incident opens now; one that is open goes on. */
  | { readonly outcome: 'mute'; readonly rule: AppliedRule; readonly reason: string }
  | { readonly outcome: 'drop'; readonly reason: string };

/** What of a rule incidents are made with. */
export interface AppliedRule {
  readonly id: string;
  readonly commit: string | null;
  readonly revision: string;
  readonly hold: Span;
  readonly keepFiring: Span;
  readonly reopenWithin: Span;
  readonly noData: 'keep' | 'resolve';
  severityOf(stepFraction: number): Severity;
  /** The rule as the incident carries it. */
  describe(incident: Omit<Incident, 'rule'>): Incident['rule'];
}

/** Where there are no rules: every finding is reported. */
export const BUILT_IN: JobPolicy = {
  commit: null,
  params: DEFAULT_PARAMS,
  expressions: new Map(),
  judge: ({ kind }) => ({ outcome: 'report', rule: builtInRule(kind) }),
};

const builtInRule = (kind: Judged['kind']): AppliedRule => ({
  ...{ id: kind, commit: null, revision: '', hold: NO_SPAN, keepFiring: NO_SPAN, noData: 'keep' },
  reopenWithin: parseSpan(REOPEN_WITHIN),
  severityOf: (stepFraction) => severityOf(kind, stepFraction),
  describe: () => ({ id: kind, commit: null }),
});

/** The rules of a set that hold for one job. The first that fits a finding decides. */
export class JobRules implements JobPolicy {
  readonly commit: string;
  readonly params: DetectorParams;
  readonly expressions = new Map<number, Rule[]>();
  readonly #ofKind = new Map<string, Rule[]>();
  /** Expressions only. */
  readonly #byId = new Map<string, Rule>();
  readonly #switchedOff: readonly SwitchedOff[];
  readonly #applied = new Map<Rule, AppliedRule>();

  /** @param rules that fit the job, in order of precedence */
  constructor(commit: string, rules: readonly Rule[], switchedOff: readonly SwitchedOff[]) {
    this.commit = commit;
    this.#switchedOff = switchedOff;
    for (const rule of rules) {
      if (!rule.expression) pushTo(this.#ofKind, rule.kind, rule);
      else {
        pushTo(this.expressions, rule.expression.window, rule);
        this.#byId.set(rule.id, rule);
      }
    }
    // Parameters hold for the whole job, and so do not come from rules for some of its hosts.
    const decides = [...this.#ofKind.values()].map((each) => each.find(({ match }) => !match.host));
    this.params = Object.assign({}, DEFAULT_PARAMS, ...decides.map((rule) => rule?.params));
  }

  judge(judged: Judged, ruleId: string | undefined, now: bigint): Verdict {
    const off = this.#switchedOff.find(
      ({ kind, until }) => kind === judged.kind && !(until !== undefined && now >= until),
    );
    if (off) return { outcome: 'drop', reason: `${judged.kind} is switched off for the job: ${off.reason}` };
    const rule = this.#ruleFor(judged, ruleId);
    if (!rule) return this.#withoutRule(judged, ruleId);
    const exception = rule.exceptions.find((each) => isExcepted(each, judged, now));
    if (exception)
      return { outcome: 'drop', reason: `rule ${rule.id}, exception "${exception.name}": ${exception.reason}` };
    const applied = this.#apply(rule);
    const mute = rule.mute.find(({ holds }) => holds(now));
    return mute
      ? { outcome: 'mute', rule: applied, reason: `rule ${rule.id}, mute "${mute.name}"` }
      : { outcome: 'report', rule: applied };
  }

  #ruleFor({ kind, subject }: Judged, ruleId: string | undefined): Rule | undefined {
    if (ruleId !== undefined) return this.#byId.get(ruleId);
    const fits = ({ match: { host: globs } }: Rule): boolean =>
      !globs || subject.hosts.some((host) => globsMatch(globs, host));
    return this.#ofKind.get(kind)?.find(fits);
  }

  /** Lost records are told even where nobody wrote a rule on them. */
  #withoutRule({ kind }: Judged, ruleId: string | undefined): Verdict {
    if (kind === 'data_quality' && ruleId === undefined) return { outcome: 'report', rule: builtInRule(kind) };
    return {
      outcome: 'drop',
      reason: ruleId === undefined ? `no rule reports ${kind} here` : `rule ${ruleId} is gone`,
    };
  }

  #apply(rule: Rule): AppliedRule {
    let applied = this.#applied.get(rule);
    if (!applied) this.#applied.set(rule, (applied = appliedRule(rule, this.commit)));
    return applied;
  }
}

function pushTo<K>(lists: Map<K, Rule[]>, key: K, rule: Rule): void {
  const list = lists.get(key);
  if (list) list.push(rule);
  else lists.set(key, [rule]);
}

function appliedRule(rule: Rule, commit: string): AppliedRule {
  const { id, revision, hold, keepFiring, reopenWithin, noData, kind } = rule;
  return {
    ...{ id, commit, revision, hold, keepFiring, reopenWithin, noData },
    severityOf: (stepFraction) => (rule.status === 'experimental' ? 'info' : severityBy(rule, kind, stepFraction)),
    describe: (incident) => ({ id, commit, ...textsOf(rule, incident) }),
  };
}

function severityBy({ severity }: Rule, kind: Judged['kind'], stepFraction: number): Severity {
  if (kind === 'transient_stall' || kind === 'data_quality') return 'info';
  if (typeof severity === 'string') return severity;
  const level = stepFraction >= severity.critical ? 2 : stepFraction >= severity.warning ? 1 : 0;
  return SEVERITIES[level] as Severity;
}

/** Labels and annotations, filled in; owner and runbook are among them under the names that Prometheus users know. */
function textsOf(rule: Rule, incident: Omit<Incident, 'rule'>): Pick<Incident['rule'], 'labels' | 'annotations'> {
  const facts = (field: string): unknown => factOf(incident, field);
  const filled = (templates: ReadonlyMap<string, Template>): [string, string][] =>
    [...templates].map(([name, template]) => [name, renderTemplate(template, facts)]);
  const labels = Object.fromEntries([...(rule.owner ? [['owner', rule.owner]] : []), ...filled(rule.labels)]);
  const annotations = Object.fromEntries([
    ...(rule.runbook ? [['runbook_url', rule.runbook]] : []),
    ...filled(rule.annotations),
  ]);
  return {
    ...(Object.keys(labels).length > 0 && { labels }),
    ...(Object.keys(annotations).length > 0 && { annotations }),
  };
}

function factOf(incident: Omit<Incident, 'rule'>, field: string): unknown {
  if (field === 'cost.step_percent') return incident.cost.step_fraction * 100;
  if (field.startsWith('cost.')) return incident.cost[field.slice(5) as keyof Incident['cost']];
  if (field.startsWith('evidence.')) {
    const name = field.slice(9);
    return Object.hasOwn(incident.evidence, name) ? incident.evidence[name] : undefined;
  }
  if (field in incident.subject) return incident.subject[field as keyof Incident['subject']];
  return incident[field as keyof typeof incident];
}
