import type { CommGroup } from './collectives.js';

/** Classes of a rank's own work, the time nobody else can be blamed for; they are an incident's causes. */
export const WORK_CLASSES = ['compute', 'memory', 'data', 'host'] as const;
export type WorkClass = (typeof WORK_CLASSES)[number];

/** A value a slot of JobTopology; NaN where the rank sent nothing. Times are nanoseconds. */
export type BySlot = Float64Array;

/** What a serving step works on, as its rows say, and the state of the engine. By slot; NaN unknown. */
export const SERVING_FACTS = [
  'prefill_tokens',
  'decode_tokens',
  'context_tokens',
  'batch',
  'kv_usage',
  'running',
  'waiting',
  'preempted',
  'cached_tokens',
  'recomputed_tokens',
] as const;
export type ServingFact = (typeof SERVING_FACTS)[number];

/** Traffic of one NIC or link in a step. */
export interface PortTraffic {
  readonly host: string;
  /** '' where the row names none. */
  readonly nic: string;
  readonly link: string;
  bytes: number;
  /** Time of the transfers, nanoseconds. */
  time: number;
}

/** One closed step, decomposed: what every detector looks at. Plain data: the last ones go into snapshots. */
export interface StepView {
  readonly step: number;
  /** Nanoseconds of the epoch at which the first rank began. */
  readonly startNs: bigint;
  /** Live ranks that sent nothing. */
  readonly missing: readonly number[];
  /** Ranks whose phases another clock timed than those of most: they are left out of all below but steps and host work. */
  readonly otherClock: readonly number[];
  readonly work: Readonly<Record<WorkClass, BySlot>>;
  /**
   * Time on the rank's own clock between its last phase of the step before and its first of this one that no host row
   * explains; NaN where unknown. Host time or a wait: only the waits of others can tell.
   */
  readonly gap: BySlot;
  /**
   * Time inside the step's own row in which none of the rank's phases ran: its host launched too late, or phases that
   * nobody fences. NaN where no such row or nothing but it was sent, and in a pipeline that sends no rows of its receives.
   */
  readonly idle: BySlot;
  /** From the end of the step before to the end of this one, on the rank's own clock. */
  readonly stepTime: BySlot;
  /** Tokens worked on; NaN unknown. */
  readonly tokens: BySlot;
  /** CUDA graph bucket: 0 eager, -1 unknown. */
  readonly graph: BySlot;
  readonly microbatches: BySlot;
  /** A serving step launched kernel by kernel: what its phases and collectives take, and on which rank, is how it was launched. */
  readonly launchBound: boolean;
  /** Tokens by phase, where rows say: experts get others than attention. */
  readonly phaseTokens: ReadonlyMap<string, BySlot>;
  readonly serving: Readonly<Record<ServingFact, BySlot>>;
  /** Requests that rows name -> prefill tokens worked on for them in this step. */
  readonly requests: ReadonlyMap<string, number>;
  /** Kernels launched, and GPU time inside phases; NaN where no row of a compute phase says. */
  readonly launches: BySlot;
  readonly busy: BySlot;
  readonly ports: readonly PortTraffic[];
  /** Sum of a phase's durations, by phase name. */
  readonly phases: ReadonlyMap<string, BySlot>;
  /** Which of them are communication. */
  readonly commPhases: readonly string[];
  /** Blocking collectives, by communicator. */
  readonly groups: readonly CommGroup[];
  /** Sends and receives between two ranks in one direction. */
  readonly channels: readonly CommGroup[];
}

/** Own work of a slot in all classes; NaN where it sent nothing. */
export function ownWork(view: StepView, slot: number): number {
  let sum = 0;
  for (const name of WORK_CLASSES) sum += view.work[name][slot] as number;
  return sum;
}

/** The step's time as the slowest rank had it. */
export function stepTimeOf(view: StepView): number {
  const { stepTime } = view;
  let longest = 0;
  // Not by iterator: it is asked for in every step by every detector.
  for (let slot = 0; slot < stepTime.length; slot++)
    if ((stepTime[slot] as number) > longest) longest = stepTime[slot] as number;
  return longest;
}
