import { createHash } from 'node:crypto';
import { type Incident, SEVERITIES, type Severity, type TimelineEntry, timestampOf } from '../../protocol/incident.js';
import type { Finding } from '../detectors/finding.js';
import type { Moment } from '../rules/duration.js';
import { type AppliedRule, BUILT_IN, type JobPolicy, type Verdict } from '../rules/job-rules.js';
import {
  forgetGone,
  type Holds,
  isFlapping,
  keepRecent,
  keepsFiring,
  lastsLongEnough,
  newHolds,
  suppress,
  takeRecent,
} from './holds.js';

/** Incidents of one job and run that are not over, by `kind|key|onset`. Plain data. */
export type IncidentBook = Map<string, Incident>;

/** A change that people may want to hear of. */
export interface Transition {
  readonly before: Incident | undefined;
  readonly after: Incident;
}

/** Severity eases only once the cost is this far below the line, so that a cost near it does not flap. */
const EASE_MARGIN = 0.02;
/** An incident that changes severity for days keeps its first and last entries only. */
const MAX_TIMELINE = 50;
/** Keys of what rules found by an expression of theirs begin with it. */
const RULE_KEY = 'rule=';

/** Key of what a rule found by its expression; `scope` tells its subjects apart. */
export const ruleKey = (ruleId: string, scope: string): string => `${RULE_KEY}${ruleId}${scope && `,${scope}`}`;

/**
 * Takes in all that holds after a step that began at `now` (event time): opens, updates and resolves as the rules say;
 * tells what changed.
 */
export function follow(
  book: IncidentBook,
  findings: readonly Finding[],
  step: number,
  now: bigint,
  policy: JobPolicy = BUILT_IN,
  holds: Holds = newHolds(),
): Transition[] {
  if (findings.length === 0 && book.size === 0) {
    if (holds.pending.size > 0 || holds.ended.size > 0 || holds.suppressed.size > 0) forgetGone(holds, () => false);
    return [];
  }
  return new Round(book, policy, holds, { step, ns: now }).follow(findings);
}

/**
 * Judges open incidents anew after the rules have changed: those that no rule reports any more are resolved, and say why.
 * @param at the newest step, and when it began
 */
export function revise(book: IncidentBook, at: Moment, policy: JobPolicy, holds: Holds): Transition[] {
  return new Round(book, policy, holds, at).revise();
}

/** Resolves the incidents whose rule asks for that once no data comes any more. */
export function resolveSilent(book: IncidentBook, at: Moment, policy: JobPolicy, holds: Holds): Transition[] {
  return new Round(book, policy, holds, at).resolveSilent();
}

/** Ends all open incidents of a job that has sent nothing for so long that it is forgotten. */
export function resolveAll(book: IncidentBook, at: Moment, policy: JobPolicy, holds: Holds): Transition[] {
  return new Round(book, policy, holds, at).resolveAll();
}

/**
 * Hash of job, run, kind, subject key and onset, frozen at opening: the same whatever path the rows took. Neither file
 * names, offsets nor wall clock enter.
 */
export function incidentId(finding: Finding): string {
  const { job, run } = finding.subject;
  const facts = [job, run, finding.kind, finding.key, String(finding.onsetStep)];
  return createHash('sha256').update(facts.join('\0')).digest('hex').slice(0, 16);
}

class Round {
  readonly #book: IncidentBook;
  readonly #policy: JobPolicy;
  readonly #holds: Holds;
  readonly #now: Moment;
  readonly #at: string;
  readonly #transitions: Transition[] = [];

  constructor(book: IncidentBook, policy: JobPolicy, holds: Holds, now: Moment) {
    this.#book = book;
    this.#policy = policy;
    this.#holds = holds;
    this.#now = now;
    this.#at = timestampOf(now.ns);
  }

  follow(findings: readonly Finding[]): Transition[] {
    const { absent } = this.#holds;
    const present = new Map(findings.map((finding) => [nameOf(finding), finding]));
    // First, so that a finding that begins anew in the same step carries its incident on.
    for (const [name, before] of this.#book)
      if (!present.has(name) && !this.#isKept(name, before)) this.#resolve(name, before, 'no longer seen');
    for (const [name, finding] of present) {
      const verdict = this.#policy.judge(finding, ruleOfKey(finding.key), this.#now.ns);
      this.#resume(name, finding, present);
      if (verdict.outcome === 'drop') this.#drop(name, verdict.reason);
      else {
        this.#takeIn(name, finding, verdict);
        absent.delete(name);
      }
    }
    forgetGone(this.#holds, (name) => present.has(name));
    return this.#transitions;
  }

  revise(): Transition[] {
    for (const [name, incident] of this.#book) {
      const verdict = this.#policy.judge(incident, ruleOfName(name), this.#now.ns);
      if (verdict.outcome === 'drop') this.#drop(name, this.#noteOf(incident, verdict.reason));
      else if (verdict.rule.id !== incident.rule.id) this.#book.set(name, described(incident, verdict.rule));
    }
    return this.#transitions;
  }

  #noteOf({ rule }: Incident, reason: string): string {
    return `rule ${rule.id} applies no longer: ${reason} (rules of ${this.#policy.commit})`;
  }

  resolveSilent(): Transition[] {
    for (const [name, incident] of this.#book) {
      const verdict = this.#policy.judge(incident, ruleOfName(name), this.#now.ns);
      if (verdict.outcome === 'drop' || verdict.rule.noData !== 'resolve') continue;
      this.#end(name, incident, `no data of the job since step ${this.#now.step}`);
    }
    return this.#transitions;
  }

  resolveAll(): Transition[] {
    for (const [name, incident] of this.#book)
      this.#resolve(name, incident, `the job is forgotten: no data since step ${this.#now.step}`);
    return this.#transitions;
  }

  /** Opens or updates. */
  #takeIn(name: string, finding: Finding, verdict: Exclude<Verdict, { outcome: 'drop' }>): void {
    const before = this.#book.get(name);
    const { rule } = verdict;
    // The wait goes on while an incident is muted.
    const waits = !before && !lastsLongEnough(this.#holds, name, rule, this.#now);
    if (!before && verdict.outcome === 'mute') {
      suppress(this.#holds, name, verdict.reason);
      return;
    }
    this.#holds.suppressed.delete(name);
    if (waits) return;
    this.#holds.pending.delete(name);
    const again = before ? undefined : this.#recall(name, finding, rule);
    const after = before ? this.#updated(name, before, finding, rule) : this.#opened(name, finding, rule, again);
    this.#book.set(name, after);
    if (!before || before.severity !== after.severity) this.#transitions.push({ before: before ?? again, after });
  }

  /** The incident that opens again: one that a rule ended, or one of the same subject that ended a short while ago. */
  #recall(name: string, { kind, key }: Finding, rule: AppliedRule): Incident | undefined {
    const { ended, spent } = this.#holds;
    const recent = takeRecent(this.#holds, subjectName(kind, key), rule.reopenWithin, this.#now);
    const same = ended.get(name);
    ended.delete(name);
    if (!same && recent) spent.set(name, recent.cost.gpu_seconds);
    return same ?? recent;
  }

  /** A finding that begins anew while an incident of its subject is kept firing carries that one on. */
  #resume(name: string, { kind, key }: Finding, present: ReadonlyMap<string, Finding>): void {
    const { absent } = this.#holds;
    if (absent.size === 0 || this.#book.has(name)) return;
    const prefix = `${subjectName(kind, key)}|`;
    for (const held of absent.keys()) {
      const incident = this.#book.get(held);
      if (!incident || !held.startsWith(prefix) || present.has(held)) continue;
      this.#book.delete(held);
      absent.delete(held);
      this.#book.set(name, incident);
      this.#holds.spent.set(name, incident.cost.gpu_seconds);
      return;
    }
  }

  #isKept(name: string, incident: Incident): boolean {
    const verdict = this.#policy.judge(incident, ruleOfName(name), this.#now.ns);
    return verdict.outcome !== 'drop' && keepsFiring(this.#holds, name, incident, verdict.rule, this.#now);
  }

  #drop(name: string, reason: string): void {
    const open = this.#book.get(name);
    suppress(this.#holds, name, reason);
    this.#holds.pending.delete(name);
    if (open) this.#end(name, open, reason);
  }

  /** Resolves what a rule ends while its finding may last. */
  #end(name: string, open: Incident, note: string): void {
    this.#resolve(name, open, note);
    const { after } = this.#transitions.at(-1) as Transition;
    this.#holds.ended.set(name, after);
  }

  #resolve(name: string, before: Incident, note: string): void {
    this.#book.delete(name);
    this.#holds.absent.delete(name);
    this.#holds.spent.delete(name);
    const entry: TimelineEntry = { at: this.#at, step: this.#now.step, event: 'resolved', note };
    const after = {
      ...before,
      status: 'resolved',
      resolved_at: this.#at,
      timeline: extended(before.timeline, entry),
    } as const;
    keepRecent(this.#holds, subjectOfName(name), after, this.#now);
    this.#transitions.push({ before, after });
  }

  #opened(name: string, finding: Finding, rule: AppliedRule, again: Incident | undefined): Incident {
    const severity = rule.severityOf(atStake(finding));
    const { step } = this.#now;
    const entry = { at: this.#at, step, event: 'opened', note: `${severity}: ${finding.summary}` } as const;
    const state = { ...this.#factsOf(name, finding), severity, status: 'open', last_step: step } as const;
    const incident = again
      ? { ...reopened(again, entry), ...state, resolved_at: null }
      : {
          ...{ id: incidentId(finding), kind: finding.kind, ...state },
          ...{ onset_step: finding.onsetStep, detected_step: step, started_at: timestampOf(finding.onsetNs) },
          ...{ detected_at: this.#at, resolved_at: null, timeline: [entry] },
        };
    return { ...incident, rule: rule.describe(incident) };
  }

  #factsOf(name: string, finding: Finding) {
    const { gpu_seconds } = finding.cost;
    const spent = this.#holds.spent.get(name) ?? 0;
    const cost = { ...finding.cost, gpu_seconds: Math.round((gpu_seconds + spent) * 1000) / 1000 };
    return { ...factsOf(finding), cost: spent === 0 ? finding.cost : cost };
  }

  #updated(name: string, before: Incident, finding: Finding, rule: AppliedRule): Incident {
    const after = { ...before, ...this.#factsOf(name, finding), last_step: this.#now.step };
    const severity = severityNow(before, finding, rule);
    if (severity === before.severity) return described(after, rule);
    const event = SEVERITIES.indexOf(severity) > SEVERITIES.indexOf(before.severity) ? 'escalated' : 'eased';
    const entry = { at: this.#at, step: this.#now.step, event, note: severity } as const;
    return described({ ...after, severity, timeline: extended(before.timeline, entry) }, rule);
  }
}

const subjectName = (kind: string, key: string): string => `${kind}|${key}`;
const nameOf = ({ kind, key, onsetStep }: Finding): string => `${subjectName(kind, key)}|${onsetStep}`;
const subjectOfName = (name: string): string => name.replace(/\|[^|]*$/, '');

/** One incident goes on as itself, and counts how often it has come back. */
function reopened(again: Incident, { at, step, note }: TimelineEntry): Incident {
  const incident = { ...again, reopened: (again.reopened ?? 0) + 1 };
  const held = isFlapping(incident) ? '; flaps: stays open until it has been quiet for long enough' : '';
  const entry: TimelineEntry = { at, step, event: 'reopened', note: `${note}${held}` };
  return { ...incident, timeline: extended(again.timeline, entry) };
}

/** Id of the rule whose expression found it; undefined where a detector did. */
const ruleOfKey = (key: string): string | undefined =>
  key.startsWith(RULE_KEY) ? key.slice(RULE_KEY.length).split(',')[0] : undefined;

const ruleOfName = (name: string): string | undefined => ruleOfKey(subjectOfName(name).slice(name.indexOf('|') + 1));

/** Annotations change with what is measured; the commit stays the one that the incident was opened under. */
function described(incident: Incident, rule: AppliedRule): Incident {
  const now = rule.describe(incident);
  return { ...incident, rule: rule.id === incident.rule.id ? { ...now, commit: incident.rule.commit } : now };
}

const factsOf = (finding: Finding) => ({
  subject: finding.subject,
  cause: finding.cause,
  summary: finding.summary,
  cost: finding.cost,
  confidence: finding.confidence,
  evidence: finding.evidence,
  runner_up: finding.runnerUp,
});

const atStake = ({ cost, stake = 0 }: Finding): number => Math.max(cost.step_fraction, stake);

function severityNow(before: Incident, finding: Finding, rule: AppliedRule): Severity {
  const share = atStake(finding);
  const now = rule.severityOf(share);
  const eased = SEVERITIES.indexOf(now) < SEVERITIES.indexOf(before.severity);
  return eased && rule.severityOf(share + EASE_MARGIN) === before.severity ? before.severity : now;
}

function extended(timeline: readonly TimelineEntry[], entry: TimelineEntry): TimelineEntry[] {
  const kept = timeline.length < MAX_TIMELINE ? timeline : [timeline[0] as TimelineEntry, ...timeline.slice(2)];
  return [...kept, entry];
}
