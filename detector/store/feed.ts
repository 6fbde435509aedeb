import type { Incident } from '../../protocol/incident.js';

/** A change of an incident that is yet to be published on its topic. */
export interface FeedEntry {
  readonly seq: number;
  readonly incidentId: string;
  /** The incident as it was then, as JSON. */
  readonly body: string;
}

/** Changes of incidents on their way to the topic, in order. Every method may throw `store_unavailable`. */
export interface IncidentFeed {
  /** The oldest that wait. */
  next(limit: number): FeedEntry[];
  /** They are on the topic: all up to this one are forgotten. */
  published(seq: number): void;
}

/** Somebody has seen an incident and takes care of it. */
export interface Acknowledgement {
  readonly author: string;
  readonly note: string;
  /** Epoch milliseconds. */
  readonly atMs: number;
}

/** The incident as one that is acknowledged; it is no longer once it has reopened. */
export interface StoredAcknowledgement extends Acknowledgement {
  readonly reopened: number;
  /** How many entries the timeline had, and the incident's step, when it was acknowledged. */
  readonly position: number;
  readonly step: number;
}

/** Pipelines know nothing of acknowledgements: whatever they write is given the one that there is. */
export function acknowledged(
  incident: Incident,
  { reopened, position, step, ...given }: StoredAcknowledgement,
): Incident {
  if (reopened !== (incident.reopened ?? 0)) return incident;
  const note = `${given.author}${given.note === '' ? '' : `: ${given.note}`}`;
  const entry = { at: new Date(given.atMs).toISOString(), step, event: 'acknowledged', note } as const;
  const { timeline, status } = incident;
  return {
    ...incident,
    status: status === 'open' ? 'acknowledged' : status,
    timeline: [...timeline.slice(0, position), entry, ...timeline.slice(position)],
  };
}
