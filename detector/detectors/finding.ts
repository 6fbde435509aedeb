import type { Cause, Cost, Evidence, IncidentKind, RunnerUp, Subject } from '../../protocol/incident.js';
import type { Population } from '../baseline/baseline.js';
import type { Counters } from '../counters/counters.js';
import type { StepView } from '../pipeline/step-view.js';
import type { JobTopology } from '../pipeline/topology.js';
import type { EarlierTransfers } from '../reference/transfer-past.js';
import type { DetectorParams } from './params.js';

/** What a detector holds to be wrong now; it is given anew at every step until it is over. */
export interface Finding {
  readonly kind: IncidentKind;
  /** Names the subject for as long as it lasts; part of the incident's id. */
  readonly key: string;
  readonly subject: Subject;
  readonly cause: Cause;
  readonly summary: string;
  readonly onsetStep: number;
  readonly onsetNs: bigint;
  readonly cost: Cost;
  /** Share of the step that is at stake, where that is more than what was lost so far: it decides on the severity. */
  readonly stake?: number;
  readonly confidence: number;
  readonly evidence: Evidence;
  readonly runnerUp: RunnerUp | null;
}

/** What detectors see of a job: the step that closed, those before it, and who is who. */
export interface JobWindow {
  readonly topology: JobTopology;
  /** Oldest first; the last one is the step that has just closed. */
  readonly views: readonly StepView[];
  /** What healthy runs of such a job took, where a baseline knows it. */
  readonly expectations?: Population | undefined;
  /** What transfers took in the job's attempt before this one, where that was set up alike. */
  readonly earlier?: EarlierTransfers | undefined;
  /** What the hosts' counters and events say; they come by another way than the steps, some seconds earlier or later. */
  readonly counters?: Counters | undefined;
}

/**
 * A kind of trouble. `step` is a pure function of its state, the window and what rules set: no clock, no I/O, and the
 * state is plain data (it goes into snapshots by structured clone), so that replay, backtest and live give the same.
 */
export interface Detector<State = unknown> {
  readonly kind: IncidentKind;
  initial(): State;
  step(state: State, window: JobWindow, params: DetectorParams): Finding[];
}

/** How many closed steps a window holds. */
export const WINDOW_STEPS = 64;
