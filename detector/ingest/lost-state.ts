import type { Incident } from '../../protocol/incident.js';
import type { Transition } from '../incidents/incident-book.js';
import { jobOfKey } from '../pipeline/partition-pipeline.js';
import type { Store } from '../store/store.js';

/**
 * The ends of incidents that nobody follows any more, since the state of their jobs cannot be read: what is still wrong is
 * found anew, as an incident of its own.
 * @param keys of the jobs whose state is lost
 */
export function endLost(store: Pick<Store, 'openIncidents'>, keys: Iterable<string>, nowMs: number): Transition[] {
  const own = store.openIncidents([...new Set([...keys].map(jobOfKey))]);
  const ids = new Set(own.map(({ id }) => id));
  // A storm has members of one partition only.
  const storms = store
    .openIncidents()
    .filter(({ id, storm }) => !ids.has(id) && storm?.members.some((member) => ids.has(member)));
  return [...own, ...storms].map((before) => ({ before, after: ended(before, new Date(nowMs).toISOString()) }));
}

function ended(incident: Incident, at: string): Incident {
  const note = 'the state of the job could not be read after a restart: it is judged anew';
  const entry = { at, step: incident.last_step, event: 'resolved', note } as const;
  return { ...incident, status: 'resolved', resolved_at: at, timeline: [...incident.timeline, entry] };
}
