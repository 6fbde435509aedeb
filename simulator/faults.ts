import type { Cause, IncidentKind } from '../protocol/incident.js';
import { interpolate } from './interpolate.js';
import { CONTENTION } from './measured.js';
import { LARGE_MESSAGE_BYTES, SLOW_PATHS } from './measured-network.js';

/** Whom it is about, in the words of an incident's subject; `groups` are all communicators that suffer. Empty: the job. */
export interface TruthSubject {
  readonly ranks?: readonly number[];
  readonly hosts?: readonly string[];
  readonly stage?: number;
  readonly groups?: readonly string[];
  readonly gpu?: string;
  readonly nic?: string;
}

/** What is really wrong: for tests and scoreboards only, never part of the rows. */
export interface Truth {
  readonly job: string;
  /** Attempt of the job, where it is not the first one. */
  readonly run?: string;
  readonly kind: IncidentKind;
  readonly cause: Cause;
  readonly subject: TruthSubject;
  readonly onset_step: number;
  /** First step without it, where it ends within the run. */
  readonly end_step?: number;
  /** See Effect. */
  readonly strength: number;
}

/** What a fault does to the workload; its strength is the number that each line names. */
export type Effect =
  /** Share of more compute time. */
  | 'compute'
  /** Share of more time of what memory bandwidth binds. */
  | 'memory'
  /** Delay before the step, over the nominal step. */
  | 'host'
  /** The same for all ranks of a host, each in its turn more or less: the longest delay, over the nominal step. */
  | 'contention'
  /** Delay of launches all through the step, over the nominal step. */
  | 'launch'
  /** Delay of the input, over the nominal step. */
  | 'data'
  /** Share of more compute time at the end of the run, growing evenly from the onset. */
  | 'drift'
  /** Share of more transfer time. */
  | 'transfer'
  /** None: the rank never arrives, or after hangSeconds. */
  | 'hang'
  /** Spread of sequence lengths between replicas, as deviation of the logarithm. */
  | 'lengths'
  /** Share of more tokens on every second replica. */
  | 'lengths_fixed'
  /** Share of more tokens on the ranks with hot experts. */
  | 'experts'
  /** Time spent on long prompts over that spent on the rest. */
  | 'prompts'
  /** KV cache that the requests want over that there is, less 1; 0.2 makes about as much of all tokens be computed again. */
  | 'kv'
  /** Share of more time of a decode step launched kernel by kernel. */
  | 'eager'
  /** Share of more requests for the favoured replicas; below 0.5 it is no more than healthy skew. */
  | 'router';

/** Which messages a slow transfer slows. */
export type MessageSizes = 'all' | 'large' | 'small' | 'host_memory';

export interface Fault {
  readonly effect: Effect;
  readonly ranks: ReadonlySet<number>;
  /** Communicators whose transfers it slows. */
  readonly groups?: ReadonlySet<string>;
  readonly sizes?: MessageSizes;
  /** Only steps of more tokens than this. */
  readonly aboveBatch?: number;
  readonly onset: number;
  readonly end: number;
  /** The steps of onset..end in which it strikes; absent: all. */
  readonly steps?: ReadonlySet<number>;
  readonly strength: number;
  readonly truth: Truth;
}

export function isActive(fault: Fault, step: number): boolean {
  return step >= fault.onset && step < fault.end && (!fault.steps || fault.steps.has(step));
}

/** Strength of one effect on a rank in a step; 0 where nothing is wrong. */
export function strengthOf(faults: readonly Fault[], effect: Effect, rank: number, step: number): number {
  let sum = 0;
  for (const fault of faults)
    if (fault.effect === effect && fault.ranks.has(rank) && isActive(fault, step))
      sum += effect === 'drift' ? fault.strength * progress(fault, step) : fault.strength;
  return sum;
}

/** How late a rank's process begins a step, over the nominal step. */
export function lateness(faults: readonly Fault[], rank: number, step: number): number {
  const contention = strengthOf(faults, 'contention', rank, step);
  const turn = CONTENTION[(rank + step) % CONTENTION.length] as number;
  return strengthOf(faults, 'host', rank, step) + contention * turn;
}

/** The fault of an effect that strikes in a step, whomever it hits. */
export function activeFault(faults: readonly Fault[], effect: Effect, step: number): Fault | undefined {
  return faults.find((fault) => fault.effect === effect && isActive(fault, step));
}

/** How much longer a group's transfer of a message takes; 1 where nothing is wrong. */
export function transferFactor(faults: readonly Fault[], group: string, bytes: number, step: number): number {
  let factor = 1;
  for (const fault of faults)
    if (fault.effect === 'transfer' && fault.groups?.has(group) && isActive(fault, step))
      factor += fault.strength * shareOf(fault.sizes ?? 'all', bytes);
  return factor;
}

/** Share of the strength that a message of this size feels. */
function shareOf(sizes: MessageSizes, bytes: number): number {
  if (sizes === 'all') return 1;
  if (sizes === 'large') return bytes >= LARGE_MESSAGE_BYTES ? 1 : 0;
  return interpolate(SLOW_PATHS[sizes], bytes);
}

const progress = (fault: Fault, step: number): number => (step + 1 - fault.onset) / (fault.end - fault.onset);
