import type { Baseline } from '../../detector/baseline/baseline.js';
import type { Transition } from '../../detector/incidents/incident-book.js';
import { PartitionPipeline } from '../../detector/pipeline/partition-pipeline.js';
import type { RuleSet } from '../../detector/rules/rule-set.js';
import type { Incident, Severity } from '../../protocol/incident.js';
import type { PhaseBatch } from '../../protocol/phase-batch.js';
import type { SampleRow } from '../../protocol/sample.js';

/** What one rule would have done. */
export interface RuleTally {
  readonly rule: string;
  /** Incidents, and of these the ones that reached warning or critical. */
  readonly incidents: number;
  readonly alerts: number;
  /** Times an incident opened, reopenings included. */
  readonly openings: number;
  /** Seconds of event time for which incidents were open: all of them together, and the longest. */
  readonly open_seconds: number;
  readonly longest_seconds: number;
  readonly gpu_seconds: number;
  readonly jobs: number;
}

/** An incident as a backtest saw it. */
export interface Fired {
  readonly incident: Incident;
  /** The highest severity that it reached. */
  readonly severity: Severity;
  readonly openings: number;
  readonly openSeconds: number;
}

/** Rules at work on recorded rows, exactly as in a detector: nothing is stored and nobody is told. */
export class Backtest {
  readonly set: RuleSet;
  readonly #pipeline: PartitionPipeline;
  readonly #fired = new Map<
    string,
    { incident: Incident; severity: Severity; openings: number; openNs: bigint; since: bigint | null }
  >();
  /** Newest event time by job and run. */
  readonly #newest = new Map<string, bigint>();
  #offset = 0n;

  constructor(set: RuleSet, baseline?: Baseline) {
    this.set = set;
    this.#pipeline = new PartitionPipeline({ current: set }, baseline);
  }

  add(batch: PhaseBatch): void {
    this.#take(this.#pipeline.add(batch, { place: '', offset: this.#offset++, again: false }));
    const key = jobOf(batch.meta);
    let newest = this.#newest.get(key) ?? 0n;
    if (batch.length > 0) {
      const last = batch.columns.start_ns.bigint(batch.length - 1);
      if (last > newest) newest = last;
    }
    this.#newest.set(key, newest);
  }

  addSample(sample: SampleRow): void {
    this.#pipeline.addSamples([sample]);
  }

  /** Judges what waits; incidents that are still open are taken as open until the last row of their job. */
  finish(): { readonly fired: readonly Fired[]; readonly suppressed: ReadonlyMap<string, number> } {
    this.#take(this.#pipeline.flush());
    for (const incident of this.#pipeline.openIncidents()) {
      const known = this.#fired.get(incident.id);
      if (!known) continue;
      known.incident = incident;
      const end = this.#newest.get(jobOf(incident.subject)) ?? 0n;
      if (known.since !== null && end > known.since) known.openNs += end - known.since;
    }
    const fired = [...this.#fired.values()].map(({ incident, severity, openings, openNs }) => ({
      ...{ incident, severity, openings, openSeconds: Number(openNs) / 1e9 },
    }));
    return { fired, suppressed: this.#pipeline.counts().suppressed };
  }

  /** Rules whose expression never had a value, and why. */
  withoutValue(): ReadonlyMap<string, string> {
    return this.#pipeline.expressionsWithoutValue();
  }

  #take(transitions: readonly Transition[]): void {
    for (const { before, after } of transitions) {
      if (!this.set.rule(after.rule.id)) continue;
      let known = this.#fired.get(after.id);
      if (!known)
        this.#fired.set(
          after.id,
          (known = { incident: after, severity: after.severity, openings: 0, openNs: 0n, since: null }),
        );
      known.incident = after;
      if (LEVELS.indexOf(after.severity) > LEVELS.indexOf(known.severity)) known.severity = after.severity;
      const wasOpen = before !== undefined && before.status !== 'resolved';
      if (!wasOpen && after.status !== 'resolved') {
        known.openings++;
        known.since = nsOfTimestamp(after.timeline.at(-1)?.at as string);
      } else if (after.status === 'resolved' && known.since !== null) {
        known.openNs += nsOfTimestamp(after.resolved_at as string) - known.since;
        known.since = null;
      }
    }
  }
}

const LEVELS: readonly Severity[] = ['info', 'warning', 'critical'];

const jobOf = ({ job, run }: { job: string; run: string }): string => `${job}\0${run}`;

/** Epoch ns of `2026-01-31T08:00:00.123456789Z`. */
function nsOfTimestamp(text: string): bigint {
  const [seconds, fraction = ''] = text.replace('Z', '').split('.') as [string, string?];
  return BigInt(Date.parse(`${seconds}Z`)) * 1_000_000n + BigInt(fraction.padEnd(9, '0').slice(0, 9));
}

export const isAlert = ({ severity }: Fired): boolean => severity !== 'info';

/** By rule, those that fired most first; rules that did not fire last. */
export function tallies(set: RuleSet, fired: readonly Fired[]): RuleTally[] {
  const rules = set.rules.map(({ id }): RuleTally => {
    const own = fired.filter(({ incident }) => incident.rule.id === id);
    const sum = (read: (each: Fired) => number): number => own.reduce((total, each) => total + read(each), 0);
    return {
      rule: id,
      incidents: own.length,
      alerts: own.filter(isAlert).length,
      openings: sum(({ openings }) => openings),
      open_seconds: rounded(sum(({ openSeconds }) => openSeconds)),
      longest_seconds: rounded(Math.max(0, ...own.map(({ openSeconds }) => openSeconds))),
      gpu_seconds: rounded(sum(({ incident }) => incident.cost.gpu_seconds)),
      jobs: new Set(own.map(({ incident }) => incident.subject.job)).size,
    };
  });
  return rules.sort((a, b) => b.incidents - a.incidents);
}

export const rounded = (value: number): number => Math.round(value * 1000) / 1000;

/** How what fires under two rule sets differs. */
export interface Difference {
  readonly only_new: readonly Fired[];
  readonly only_old: readonly Fired[];
  /** In both, with another severity, rule or time. */
  readonly changed: readonly { readonly was: Fired; readonly is: Fired; readonly what: readonly string[] }[];
}

export function differenceOf(was: readonly Fired[], is: readonly Fired[]): Difference {
  const before = new Map(was.map((each) => [each.incident.id, each]));
  const after = new Map(is.map((each) => [each.incident.id, each]));
  return {
    only_new: is.filter(({ incident }) => !before.has(incident.id)),
    only_old: was.filter(({ incident }) => !after.has(incident.id)),
    changed: was.flatMap((old) => {
      const now = after.get(old.incident.id);
      const what = now ? changes(old, now) : [];
      return now && what.length > 0 ? [{ was: old, is: now, what }] : [];
    }),
  };
}

function changes(was: Fired, is: Fired): string[] {
  const facts = ({ incident, severity, openings, openSeconds }: Fired) => ({
    rule: incident.rule.id,
    severity,
    'opened at step': incident.detected_step,
    openings,
    'open for': `${rounded(openSeconds)} s`,
  });
  const [old, now] = [facts(was), facts(is)];
  return (Object.keys(old) as (keyof typeof old)[])
    .filter((name) => old[name] !== now[name])
    .map((name) => `${name} ${old[name]} -> ${now[name]}`);
}
