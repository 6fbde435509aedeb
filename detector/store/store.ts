import type { TopicPartition } from '../../bus/bus.js';
import type { Incident, IncidentKind, IncidentStatus, Severity } from '../../protocol/incident.js';
import type { Acknowledgement, IncidentFeed } from './feed.js';
import type { AlertGroups, NewNotification, Outbox } from './outbox.js';
import type { SilenceStore } from './silences.js';

/** How far a partition has been read, and the state of its pipeline at that place. */
export interface Checkpoint {
  /** The next offset to read. */
  readonly nextOffset: bigint;
  /** The oldest offset that is still needed; at most `nextOffset`. */
  readonly restartOffset: bigint;
  readonly snapshot: Uint8Array;
  /** States of jobs by their keys. In a commit: those that have changed, null to delete one; absent: none. */
  readonly jobs?: ReadonlyMap<string, Uint8Array | null>;
}

/** What a new owner of a partition gets: its fencing epoch, and where the last owner had come to. */
export interface Acquired {
  readonly epoch: number;
  readonly checkpoint: Checkpoint | undefined;
}

/** A job of which data has come. */
export interface JobSeen {
  readonly job: string;
  /** The latest attempt. */
  readonly run: string;
  /** Epoch milliseconds at which its newest rows arrived, by the detector's clock. */
  readonly lastDataMs: number;
}

/** All that one step of a partition's pipeline has produced. */
export interface Commit {
  readonly partition: TopicPartition;
  /** From `acquire`. */
  readonly epoch: number;
  readonly checkpoint: Checkpoint;
  /** Full states, inserted or replaced by id; `started_at` is kept from the first. */
  readonly incidents: readonly Incident[];
  /** In the order in which they happened; their incidents are in this commit or an earlier one. */
  readonly notifications: readonly NewNotification[];
  readonly jobs: readonly JobSeen[];
  /** In the order in which they happened: what goes out on the topic of incidents. */
  readonly changes?: readonly Incident[];
}

/** Any of the values within one field, all fields together; an absent or empty field admits everything. */
export interface IncidentFilter {
  readonly status?: readonly IncidentStatus[];
  readonly kind?: readonly IncidentKind[];
  readonly severity?: readonly Severity[];
  readonly job?: readonly string[];
  readonly rank?: readonly number[];
  readonly rule?: readonly string[];
  /** Id of a storm: its members. */
  readonly part_of?: string;
  /** RFC 3339: not resolved before this time. */
  readonly since?: string;
  /** RFC 3339: started at this time or earlier. */
  readonly until?: string;
}

export interface IncidentPage {
  readonly items: Incident[];
  /** Undefined on the last page. */
  readonly nextCursor: string | undefined;
}

/** Durable state of a detector. Synchronous; every method may throw `store_unavailable`. */
export interface Store {
  readonly groups: AlertGroups;
  readonly outbox: Outbox;
  readonly silences: SilenceStore;
  readonly feed: IncidentFeed;
  /** Takes a partition over: commits under earlier epochs are refused from now on. */
  acquire(partition: TopicPartition): Acquired;
  /** Writes everything or nothing. Throws `conflict` when the epoch is not the latest: the caller owns the partition no more. */
  commit(commit: Commit): void;
  checkpoint(partition: TopicPartition): Checkpoint | undefined;
  /** Incidents not resolved, oldest first; of these jobs only, when given. */
  openIncidents(jobs?: readonly string[]): Incident[];
  incident(id: string): Incident | undefined;
  /**
   * Notes that somebody takes care of an incident; whatever is committed of it keeps that, until it reopens. Again: nothing
   * changes. Undefined: there is none. Throws `conflict` for one that is over.
   */
  acknowledge(id: string, given: Acknowledgement): Incident | undefined;
  /**
   * Newest start first. Following `nextCursor` gives every incident that was there at the first page exactly once, whatever is added meanwhile.
   * Throws `bad_input` for a cursor that this store did not give for this filter.
   */
  listIncidents(filter: IncidentFilter, cursor: string | undefined, limit: number): IncidentPage;
  /** Undefined: no data of the job was ever seen. */
  job(name: string): JobSeen | undefined;
  /** Names of jobs of which data has come, the latest first. */
  jobNames(limit: number): string[];
  /**
   * Deletes at most `limit` resolved incidents last changed more than `maxAgeMs` ago, with their messages once none waits,
   * and jobs without incidents unseen for as long. Returns how many incidents and jobs: call again while it is not 0. Checkpoints stay.
   */
  prune(maxAgeMs: number, limit: number): number;
  /** Throws `store_unavailable` when nothing can be written. */
  check(): void;
  close(): void;
}
