import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import { largest, servingTokens } from '../reference/decode-past.js';
import { newRing, pushRing, type Ring, ringValues } from '../reference/ring.js';
import { median, sortedKnown } from '../reference/statistics.js';
import { expected, newWorkModel, refit, takeSample, type WorkModel } from '../reference/work-model.js';
import { episodeFinding, percent, rounded } from './episode-finding.js';
import type { Detector, Finding, JobWindow } from './finding.js';
import type { DetectorParams } from './params.js';

/**
 * Steps of the whole job get slower while the work stays the same.
 *
 * Signature: time of a step over what the same shape and tokens took at the beginning of the run (reference frozen after
 * 64 steps: it must not adapt to the drift). Either it has grown and stays there (13 of the last 20 steps: by then whatever
 * may explain it has been found, by 10 of 12), or it climbs: nearly every later step of the last 12 is longer than every
 * earlier one (Kendall's tau of at least 0.8, which noise reaches once in 1e4 windows), the climb is 20 %, and no rise from
 * one step to the next makes half of it, as a jump does. Given only where no other finding explains it.
 *
 * Grown is 10 % (what Greyhound, ATC'25, verifies a change point with; healthy jobs of public NDTimeline traces settle to
 * steps 6 % longer than their first ones), and no less than four standard errors of what is compared, from the spread of
 * the steps learnt from: one in 30,000 for normal noise, and steps of varying lengths spread by a third.
 */
export const stepDrift: Detector<DriftState> = {
  kind: 'step_drift',
  initial: () => ({ models: new Map(), ratios: newRing(STEPS), times: newRing(STEPS), seen: 0, episode: null }),
  step,
};

export interface DriftState {
  models: Map<string, WorkModel>;
  /** Of the last steps: time over expected, or over the first step's while nothing is expected yet. */
  ratios: Ring;
  times: Ring;
  seen: number;
  episode: {
    onsetStep: number;
    onsetNs: bigint;
    lost: number;
    time: number;
    steps: number;
    ratio: number;
    climbs: boolean;
  } | null;
}

const STEPS = 20;
/** So many of them have grown. */
const GROWN_STEPS = 13;
const CLIMB_STEPS = 12;
const CLIMBED = 1.2;
const TAU = 0.8;
/** What has grown at once is looked at for longer. */
const JUMP = 0.5;
const LEARN_STEPS = 64;
/** Four standard errors of the difference of two medians (1.2533 sigma / sqrt(n)), in units of one step's spread. */
const ERRORS = 4 * 1.2533 * Math.sqrt(1 / STEPS + 1 / LEARN_STEPS);

function step(state: DriftState, { topology, views }: JobWindow, { step_drift }: DetectorParams): Finding[] {
  const view = views.at(-1) as StepView;
  // Steps of a serving engine follow its batches and contexts, which come and go.
  if (state.seen++ > 0 && servingTokens(view) === undefined) observe(state, view, step_drift.ratio);
  const { episode } = state;
  if (!episode) return [];
  return [
    episodeFinding(
      'step_drift',
      topology,
      { ...episode, hits: episode.steps },
      {
        cause: 'unknown',
        summary: ({ msPerStep, share }) =>
          `steps of the whole job ${episode.climbs ? 'get slower and slower' : 'have become slower'}: ${rounded(episode.ratio, 2)} x what the same work took before, ${msPerStep} ms a step (${percent(share)} %)`,
        confidence: 0.8,
        evidence: { times_slower: rounded(episode.ratio, 2), climbs: episode.climbs },
        runnerUp: { kind: 'straggler', why_not: 'all ranks have become slower together; none makes the others wait' },
      },
    ),
  ];
}

function observe(state: DriftState, view: StepView, grown: number): void {
  const climbed = Math.max(CLIMBED, grown);
  const time = stepTimeOf(view) - longestPause(view);
  const key = `${view.graph[0]}`;
  let model = state.models.get(key);
  if (!model) state.models.set(key, (model = newWorkModel()));
  const tokens = largest(view.tokens);
  const due = expected(model, 0, tokens);
  if (model.work.count < LEARN_STEPS && !state.episode) {
    takeSample(model, tokens, time);
    refit(model);
  }
  pushRing(state.times, time);
  if (!Number.isNaN(due)) pushRing(state.ratios, time / due);
  const ratio = state.ratios.count < STEPS ? 1 : (sortedKnown(ringValues(state.ratios))[STEPS - GROWN_STEPS] as number);
  const climb = climbOf(state.times);
  if (state.episode) follow(state, view, time, Math.max(ratio, state.episode.climbs ? climb : 1), grown);
  else if (climb > climbed || (ratio > grown && ratio > 1 + ERRORS * spreadOf(model))) {
    begin(state, view, Math.max(ratio, climb), climb > climbed);
    follow(state, view, time, Math.max(ratio, climb), grown);
  }
}

/** Standard deviation's worth of a step's time over that expected, robust. */
function spreadOf(model: WorkModel): number {
  const times = ringValues(model.work);
  return (
    1.4826 * median(times.map((time, i) => Math.abs(time / expected(model, 0, model.tokens.values[i] as number) - 1)))
  );
}

function begin(state: DriftState, view: StepView, ratio: number, climbs: boolean): void {
  const back = climbs ? CLIMB_STEPS : GROWN_STEPS;
  state.episode = {
    onsetStep: Math.max(0, view.step - back + 1),
    onsetNs: view.startNs,
    lost: 0,
    time: 0,
    steps: 0,
    ratio,
    climbs,
  };
}

function follow(state: DriftState, view: StepView, time: number, ratio: number, grown: number): void {
  const episode = state.episode as NonNullable<DriftState['episode']>;
  episode.ratio = ratio;
  episode.lost += time * (1 - 1 / Math.max(1, ratio));
  episode.time += time;
  episode.steps++;
  if (ratio < 1 + (grown - 1) / 2 && view.step - episode.onsetStep > STEPS) state.episode = null;
}

/** How much the last steps climbed, if they did so nearly without a break; else 1. */
function climbOf(times: Ring): number {
  if (times.count < CLIMB_STEPS) return 1;
  const last = Array.from(
    { length: CLIMB_STEPS },
    (_, i) => times.values[(times.count - CLIMB_STEPS + i) % STEPS] as number,
  );
  const climbed = median(last.slice(-4)) / median(last.slice(0, 4));
  const rise = Math.max(...last.slice(1).map((time, i) => time / (last[i] as number)));
  if (rise - 1 > JUMP * (climbed - 1)) return 1;
  let agreement = 0;
  for (let i = 0; i < last.length; i++)
    for (let k = i + 1; k < last.length; k++) agreement += Math.sign((last[k] as number) - (last[i] as number));
  const pairs = (CLIMB_STEPS * (CLIMB_STEPS - 1)) / 2;
  return agreement < TAU * pairs ? 1 : climbed;
}

function longestPause(view: StepView): number {
  let longest = 0;
  for (const phase of ['checkpoint', 'evaluation'])
    for (const time of view.phases.get(phase) ?? []) if (time > longest) longest = time;
  return longest;
}
