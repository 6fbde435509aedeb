import { newSubject } from '../../protocol/incident.js';
import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import { slotsByStage } from '../pipeline/topology.js';
import { lowerMedian, mean, median } from '../reference/statistics.js';
import type { Detector, Finding, JobWindow } from './finding.js';
import type { DetectorParams } from './params.js';

/**
 * A pipeline stage has too much work: configuration, not hardware.
 *
 * Signature: compute per microbatch of one stage is more than 1.10 x the median of the others
 * in at least 90 % of the steps, on all its data-parallel ranks alike. Measured on public NDTimeline traces: 1.62 for a heavy last stage, 1.045 in a
 * healthy job. A stage of one rank that was balanced before is a slow rank, and the straggler detector's.
 */
export const stageImbalance: Detector<StageState> = {
  kind: 'stage_imbalance',
  initial: () => ({ worst: [], steps: [], balanced: 0, episode: null }),
  step,
};

interface Episode {
  stage: number;
  onsetStep: number;
  onsetNs: bigint;
  /** Time lost, the time it was lost in (nanoseconds), and the number of steps. */
  lost: number;
  time: number;
  count: number;
  /** Mean compute per microbatch by stage, in stage order, nanoseconds. */
  stageTimes: number[];
  /** Largest over smallest rank of the stage. */
  spread: number;
}

export interface StageState {
  /** Of the last steps: the stage that was too heavy, or -1; and which steps those were. */
  worst: number[];
  steps: { step: number; startNs: bigint }[];
  /** Steps seen before any episode in which no stage was too heavy. */
  balanced: number;
  episode: Episode | null;
}

const WINDOW = 10;

type Params = DetectorParams['stage_imbalance'];

interface StageTimes {
  stages: number[];
  times: number[];
  microbatches: number;
  /** Ranks of each stage. */
  slots: number[][];
}

function step(state: StageState, window: JobWindow, { stage_imbalance }: DetectorParams): Finding[] {
  const view = window.views.at(-1) as StepView;
  const stageTimes = measure(view, window);
  if (stageTimes) observe(state, view, stageTimes, stage_imbalance);
  return state.episode ? [findingOf(state.episode, window)] : [];
}

/** Compute per microbatch of every stage; undefined unless there are several and all are known. */
function measure(view: StepView, { topology }: JobWindow): StageTimes | undefined {
  const byStage = slotsByStage(topology);
  byStage.delete(-1);
  if (byStage.size < 2) return undefined;
  const compute = (slot: number): number => (view.work.compute[slot] as number) / (view.microbatches[slot] as number);
  const slots = [...byStage.values()];
  const times = slots.map((ranks) => lowerMedian(ranks.map(compute)));
  if (times.some(Number.isNaN)) return undefined;
  return { stages: [...byStage.keys()], times, microbatches: Math.max(...view.microbatches), slots };
}

function observe(state: StageState, view: StepView, measured: StageTimes, params: Params): void {
  const at = heavyStage(measured, params);
  state.worst.push(at < 0 ? -1 : (measured.stages[at] as number));
  state.steps.push({ step: view.step, startNs: view.startNs });
  if (state.worst.length > WINDOW) {
    state.worst.shift();
    state.steps.shift();
  }
  if (state.episode) follow(state, state.episode, view, measured, params);
  else {
    if (at < 0) state.balanced++;
    begin(state, view, measured, params);
  }
}

/** Index of the stage that is too heavy, or -1. */
function heavyStage({ times }: StageTimes, { ratio }: Params): number {
  const at = times.indexOf(Math.max(...times));
  const others = median(times.filter((_, i) => i !== at));
  return (times[at] as number) > ratio * others ? at : -1;
}

function share(state: StageState, stage: number): number {
  return state.worst.filter((worst) => worst === stage).length / state.worst.length;
}

function begin(state: StageState, view: StepView, measured: StageTimes, { persistence }: Params): void {
  const stage = state.worst.at(-1) as number;
  if (stage < 0 || state.worst.length < WINDOW || share(state, stage) < persistence) return;
  const ranks = measured.slots[measured.stages.indexOf(stage)] as number[];
  if (ranks.length === 1 && state.balanced >= WINDOW) return;
  const first = state.steps[state.worst.indexOf(stage)] as { step: number; startNs: bigint };
  state.episode = {
    stage,
    onsetStep: first.step,
    onsetNs: first.startNs,
    lost: 0,
    time: 0,
    count: 0,
    stageTimes: measured.times,
    spread: 1,
  };
  charge(state.episode, view, measured);
}

function follow(
  state: StageState,
  episode: Episode,
  view: StepView,
  measured: StageTimes,
  { persistence }: Params,
): void {
  if (share(state, episode.stage) < persistence / 2) state.episode = null;
  else charge(episode, view, measured);
}

/**
 * Time lost: every slot of the schedule but those that fill the pipeline runs at the pace of the slowest stage instead of
 * the mean one: (M - 1) x (max - mean) for M microbatches, max - mean where microbatches stream without end.
 */
function charge(episode: Episode, view: StepView, { times, microbatches, slots, stages }: StageTimes): void {
  const excess = Math.max(...times) - mean(times);
  episode.lost += Math.max(1, microbatches - 1) * excess;
  episode.time += stepTimeOf(view);
  episode.count++;
  episode.stageTimes = episode.stageTimes.map((time, i) => time + ((times[i] as number) - time) / episode.count);
  const compute = (slots[stages.indexOf(episode.stage)] as number[]).map((slot) => view.work.compute[slot] as number);
  episode.spread += (Math.max(...compute) / Math.min(...compute) - episode.spread) / episode.count;
}

const ms = (ns: number): number => Math.round(ns / 1e3) / 1e3;

function findingOf(episode: Episode, { topology }: JobWindow): Finding {
  const { stage, stageTimes } = episode;
  const slots = slotsByStage(topology).get(stage) ?? [];
  const fraction = episode.lost / episode.time;
  const stages = [...slotsByStage(topology).keys()].filter((known) => known >= 0);
  const own = stageTimes[stages.indexOf(stage)] as number;
  const others = median(stageTimes.filter((_, i) => stages[i] !== stage));
  const ratio = Math.round((own / others) * 1000) / 1000;
  return {
    kind: 'stage_imbalance',
    key: `stage=${stage}`,
    subject: newSubject(topology.meta.job, topology.meta.run, {
      stage,
      ranks: slots.map((slot) => topology.ranks[slot] as number).sort((a, b) => a - b),
    }),
    cause: 'configuration',
    summary: `stage ${stage} computes ${ratio} x as long per microbatch as the other stages: ${Math.round(fraction * 100)} % of the step is lost`,
    onsetStep: episode.onsetStep,
    onsetNs: episode.onsetNs,
    cost: {
      ms_per_step: ms(episode.lost / episode.count),
      step_fraction: Math.round(fraction * 1e4) / 1e4,
      gpu_seconds: Math.round((episode.lost * topology.ranks.length) / 1e6) / 1e3,
    },
    confidence: slots.length > 1 ? 0.95 : 0.8,
    evidence: {
      stage_ms_per_microbatch: stageTimes.map(ms),
      ratio_to_other_stages: ratio,
      steps: episode.count,
      ranks_of_stage: slots.length,
    },
    runnerUp: {
      kind: 'straggler',
      why_not:
        slots.length > 1
          ? `the ${slots.length} ranks of stage ${stage} differ by ${((episode.spread - 1) * 100).toFixed(1)} % only`
          : `it was so from the first steps on, when a slow GPU of a stage with one rank cannot be told from a heavy stage`,
    },
  };
}
