import type { Incident } from '../../protocol/incident.js';
import { hasPassed, isZero, type Moment } from '../rules/duration.js';
import type { AppliedRule } from '../rules/job-rules.js';

/** What rules hold back or hold on to, by the name of the finding. Plain data, as the incident book beside it. */
export interface Holds {
  /** Findings that have not lasted long enough: since when, and under which revision of their rule. */
  readonly pending: Map<string, Moment & { readonly revision: string }>;
  /** Open incidents that were last seen some time ago, and are kept firing. */
  readonly absent: Map<string, Moment>;
  /** Incidents that rules ended while their finding lasts: they open again as they were. */
  readonly ended: Map<string, Incident>;
  /** Findings that rules drop or mute now, and why. */
  readonly suppressed: Map<string, string>;
  /** Findings that were suppressed so far, by reason. */
  readonly counts: Map<string, number>;
}

export const newHolds = (): Holds => ({
  pending: new Map(),
  absent: new Map(),
  ended: new Map(),
  suppressed: new Map(),
  counts: new Map(),
});

/** Has a finding lasted as long as its rule asks? An edited rule starts the wait anew. */
export function lastsLongEnough({ pending }: Holds, name: string, rule: AppliedRule, now: Moment): boolean {
  if (isZero(rule.hold)) return true;
  let since = pending.get(name);
  if (since?.revision !== rule.revision) pending.set(name, (since = { ...now, revision: rule.revision }));
  return hasPassed(rule.hold, since, now);
}

/** Is an incident whose finding is gone to be kept open for now? */
export function keepsFiring({ absent }: Holds, name: string, rule: AppliedRule, now: Moment): boolean {
  if (isZero(rule.keepFiring)) return false;
  const since = absent.get(name);
  if (!since) absent.set(name, now);
  else if (hasPassed(rule.keepFiring, since, now)) absent.delete(name);
  else return true;
  return !since;
}

/** Notes that a finding is suppressed; counts it once for as long as it lasts. */
export function suppress({ suppressed, counts }: Holds, name: string, reason: string): void {
  if (suppressed.get(name) !== reason) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  suppressed.set(name, reason);
}

/** Forgets what was held of findings that are there no more. */
export function forgetGone({ pending, ended, suppressed }: Holds, isThere: (name: string) => boolean): void {
  for (const held of [pending, ended, suppressed])
    for (const name of held.keys()) if (!isThere(name)) held.delete(name);
}
