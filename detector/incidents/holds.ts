import type { Incident } from '../../protocol/incident.js';
import { hasPassed, isZero, type Moment, type Span } from '../rules/duration.js';
import type { AppliedRule } from '../rules/job-rules.js';

/** What rules hold back or hold on to, by the name of the finding. Plain data, as the incident book beside it. */
export interface Holds {
  /** Findings that have not lasted long enough: since when, and under which revision of their rule. */
  readonly pending: Map<string, Moment & { readonly revision: string }>;
  /** Open incidents that were last seen some time ago, and are kept firing. */
  readonly absent: Map<string, Moment>;
  /** Incidents that rules ended while their finding lasts: they open again as they were. */
  readonly ended: Map<string, Incident>;
  /** By kind and key: the incident of a subject that ended last, and when. */
  readonly recent: Map<string, { readonly incident: Incident; readonly at: Moment }>;
  /** GPU seconds that open incidents had cost before their present finding began. */
  readonly spent: Map<string, number>;
  /** Findings that rules drop or mute now, and why. */
  readonly suppressed: Map<string, string>;
  /** Findings that were suppressed so far, by reason. */
  readonly counts: Map<string, number>;
}

export const newHolds = (): Holds => ({
  pending: new Map(),
  absent: new Map(),
  ended: new Map(),
  recent: new Map(),
  spent: new Map(),
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

/**
 * From the second reopening on an incident flaps: those are five changes of state, where Nagios takes four in its last 21
 * checks (high_flap_threshold, 20 %).
 */
const FLAPPING = 2;
export const isFlapping = ({ reopened = 0 }: Pick<Incident, 'reopened'>): boolean => reopened >= FLAPPING;

/** Is an incident whose finding is gone to be kept open for now? One that flaps is, until it could not reopen any more. */
export function keepsFiring(
  { absent }: Holds,
  name: string,
  incident: Incident,
  rule: AppliedRule,
  now: Moment,
): boolean {
  const spans = [rule.keepFiring, ...(isFlapping(incident) ? [rule.reopenWithin] : [])];
  if (spans.every(isZero)) return false;
  const since = absent.get(name);
  if (!since) absent.set(name, now);
  else if (spans.every((span) => hasPassed(span, since, now))) absent.delete(name);
  else return true;
  return !since;
}

/** Keeps an incident that has ended, and lets go of those that ended first, where there are too many. */
export function keepRecent({ recent }: Holds, subject: string, incident: Incident, at: Moment): void {
  recent.delete(subject);
  recent.set(subject, { incident, at });
  for (const oldest of recent.keys()) {
    if (recent.size <= MAX_RECENT) break;
    recent.delete(oldest);
  }
}

/** More subjects than these do not flap in one job at a time. */
const MAX_RECENT = 1000;

/** Takes the incident that a finding of a subject carries on, if it ended recently enough. */
export function takeRecent({ recent }: Holds, subject: string, within: Span, now: Moment): Incident | undefined {
  const last = recent.get(subject);
  recent.delete(subject);
  return last && !hasPassed(within, last.at, now) ? last.incident : undefined;
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
