import type { Incident } from '../../protocol/incident.js';
import { newIncident, resolved } from '../detector/store/support.js';

/** What the program that is killed is told. */
export interface Plan {
  readonly path: string;
  /** URLs by name of the receiver. */
  readonly receivers: Readonly<Record<string, string>>;
  readonly allow: readonly string[];
  /** Addresses that a name answers with, one after the other. */
  readonly names: Readonly<Record<string, readonly string[]>>;
  /** How many of the changes have happened by then. */
  readonly changes: number;
  readonly finish: boolean;
}

export const MAX_ATTEMPTS = 6;
const INCIDENTS = 50;

/** The lives of some incidents, one change of each at a time. */
export const CHANGES: readonly (readonly [before: Incident | undefined, after: Incident])[] = (() => {
  const opened = Array.from({ length: INCIDENTS }, (_, i) => newIncident(`incident-${i}`));
  const worse = opened.map((incident): Incident => ({ ...incident, severity: 'critical' }));
  // Several at a time, so that each run of the program sees beginnings and ends.
  return opened.flatMap((incident, i) => {
    const last = i - 2;
    const changes: [Incident | undefined, Incident][] = [[undefined, incident]];
    if (i >= 1) changes.push([opened[i - 1], worse[i - 1] as Incident]);
    if (last >= 0) changes.push([worse[last], resolved(worse[last] as Incident)]);
    return changes;
  });
})();
