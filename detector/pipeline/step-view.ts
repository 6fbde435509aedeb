import type { CommGroup } from './collectives.js';

/** Classes of a rank's own work, the time nobody else can be blamed for; they are the causes of DESIGN section 5. */
export const WORK_CLASSES = ['compute', 'memory', 'data', 'host'] as const;
export type WorkClass = (typeof WORK_CLASSES)[number];

/** A value a slot of JobTopology; NaN where the rank sent nothing. Times are nanoseconds. */
export type BySlot = Float64Array;

/** One closed step, decomposed: what every detector looks at. Plain data: the last ones go into snapshots. */
export interface StepView {
  readonly step: number;
  /** Nanoseconds of the epoch at which the first rank began. */
  readonly startNs: bigint;
  /** Live ranks that sent nothing. */
  readonly missing: readonly number[];
  readonly work: Readonly<Record<WorkClass, BySlot>>;
  /**
   * Time on the rank's own clock between its last phase of the step before and its first of this one that no host row
   * explains; NaN where unknown. Host time or a wait: only the waits of others can tell.
   */
  readonly gap: BySlot;
  /** From the end of the step before to the end of this one, on the rank's own clock. */
  readonly stepTime: BySlot;
  /** Tokens worked on; NaN unknown. */
  readonly tokens: BySlot;
  /** CUDA graph bucket: 0 eager, -1 unknown. */
  readonly graph: BySlot;
  readonly microbatches: BySlot;
  /** A serving step launched kernel by kernel whose GPU time is unknown: its compute phases measure launch gaps. */
  readonly launchBound: boolean;
  /** Sum of a phase's durations, by phase name. */
  readonly phases: ReadonlyMap<string, BySlot>;
  /** Which of them are communication. */
  readonly commPhases: readonly string[];
  /** Blocking collectives, by communicator. */
  readonly groups: readonly CommGroup[];
}

/** Own work of a slot in all classes; NaN where it sent nothing. */
export function ownWork(view: StepView, slot: number): number {
  let sum = 0;
  for (const name of WORK_CLASSES) sum += view.work[name][slot] as number;
  return sum;
}

/** The step's time as the slowest rank had it. */
export function stepTimeOf(view: StepView): number {
  let longest = 0;
  for (const time of view.stepTime) if (time > longest) longest = time;
  return longest;
}
