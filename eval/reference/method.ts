import type { IncidentKind } from '../../protocol/incident.js';
import { GRACE_STEPS } from '../match.js';
import type { Timeline } from '../timeline.js';

/** What a method says at a step: one of these kinds, of these ranks where it names some. */
export interface Alarm {
  readonly kinds: readonly IncidentKind[];
  readonly step: number;
  readonly ranks: readonly number[];
}

/** A detector that others have published, in its straightforward form: a pure function of what has happened. */
export interface Method {
  readonly name: string;
  readonly rule: string;
  /** Kinds that it can account for; it is judged on these alone. */
  readonly claims: readonly IncidentKind[];
  readonly workloads: readonly ('training' | 'serving')[];
  detect(timeline: Timeline): Alarm[];
}

/** Alarms of the same about the same that follow each other are one. */
export function episodes(alarms: readonly Alarm[]): Alarm[] {
  const last = new Map<string, number>();
  return alarms.filter(({ kinds, ranks, step }) => {
    const key = `${kinds.join()} ${ranks.join()}`;
    const before = last.get(key);
    last.set(key, step);
    return before === undefined || step - before > GRACE_STEPS;
  });
}
