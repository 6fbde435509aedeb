import { lateness } from '../pipeline/collectives.js';
import { type Peers, peersIn, waitsTell } from '../pipeline/peers.js';
import { type BySlot, ownWork, type StepView, stepTimeOf } from '../pipeline/step-view.js';
import type { JobTopology } from '../pipeline/topology.js';
import { ALARM, accumulate, type Cusum, lostShare, newCusum, onsetOf } from '../reference/cusum.js';
import { NOISE_SLOTS, type Noise, newNoise, observeNoise, renewNoise } from '../reference/noise.js';
import { lowerMedian } from '../reference/statistics.js';
import { adjustOffset, expected, newWorkModel, refit, takeSample, type WorkModel } from '../reference/work-model.js';
import type { Detector, Finding, JobWindow } from './finding.js';
import type { DetectorParams } from './params.js';
import { attribute, type Episode, findingOf, newEpisode } from './straggler-finding.js';

/**
 * One rank (or the ranks of one host) makes the others wait.
 *
 * Signature: the rank's own work (compute, memory, data, host) is
 * longer than expected of it, and the others wait for it in the collectives they share by as much. The time that counts
 * is the smaller of the two, as a share of the step. Expected is what the job's own past says of that shape of work and
 * those tokens, times what has happened to all its peers together; peers are the ranks of a stage, and where replicas serve
 * different requests those of one replica. A rank that waits has no excess of its own and
 * cannot be named; where no wait is seen although collectives are recorded, nothing is lost and nothing is named.
 *
 * Persistence: CUSUM (reference/cusum.ts) in units of the noise measured on the job itself (reference/noise.ts). Minimum
 * effect: 2 % of the step, below which nobody acts, and below 4 % 5 ms in all. Over when loss and excess stay below that (`end`).
 */
export const straggler: Detector<StragglerState> = {
  kind: 'straggler',
  initial: () => ({
    models: new Map(),
    noise: newNoise(),
    cusums: [],
    recent: [],
    recentExcess: [],
    gaps: [],
    idles: [],
    episodes: [],
    steps: 0,
    firstStep: -1,
    judgedFrom: [],
  }),
  step,
};

export interface StragglerState {
  /** `stage|graph` -> what its work should take */
  models: Map<string, WorkModel>;
  noise: Noise;
  /** By slot. */
  cusums: Cusum[];
  /** By slot: running means of the lost share and of its own excess, also where that cost nobody anything. */
  recent: number[];
  recentExcess: number[];
  /** By slot: usual gap between steps, and usual time between the phases of one, nanoseconds. */
  gaps: number[];
  idles: number[];
  episodes: Episode[];
  steps: number;
  /** The first step after that in which the job warms up; and by slot the first that could be judged. */
  firstStep: number;
  judgedFrom: number[];
}

/** Weight of the newest step in the running mean that decides whether it is over. */
const RECENT_RATE = 0.1;
/** Ranks whose onsets lie so few steps apart, with one cause, are one incident. */
const SAME_ONSET_STEPS = 8;
/**
 * A loss below 4 % of the step counts once it has come to so much in all, nanoseconds: on two healthy H200 the host
 * of one rank launched 3 % later for 35 decode steps, 2 ms in all. Nobody could act on what ends as soon.
 */
const LARGE_SHARE = 0.04;
const ENOUGH_NS = 5e6;
/** What was held back as too small and then is so many times as large is something else, which begins there. */
const GROWN = 10;
/** Samples a step that a model takes: pooled over ranks, so that one step of a large job does not fill it. */
const SAMPLES_PER_STEP = 8;

function step(state: StragglerState, window: JobWindow, { straggler: { min_effect } }: DetectorParams): Finding[] {
  const { topology } = window;
  const view = window.views.at(-1) as StepView;
  // The first step of a run compiles, warms up and allocates; a launch-bound step measures launches, not ranks.
  const judged = ++state.steps > 1 && !view.launchBound;
  if (judged && state.firstStep < 0) state.firstStep = view.step;
  if (judged && topology.ranks.length > 1) judge(state, window, view, min_effect);
  return state.episodes.map((episode) => findingOf(episode, window));
}

function judge(state: StragglerState, window: JobWindow, view: StepView, minEffect: number): void {
  const { topology } = window;
  const peers = peersIn(view, topology);
  if (peers.sets.length === 0) return;
  const late = latenessBySlot(view, peers, topology.ranks.length);
  const work = topology.ranks.map((_, slot) => ownWork(view, slot));
  const before = state.cusums.map((cusum) => cusum.sum);
  const stepTime = stepTimeOf(view);
  const gaps = excessGaps(state, view, late);
  const models = work.map((_, slot) => modelOf(state, view, topology, slot));
  const isKnown = state.episodes.length > 0;
  const excess = excessWork(models, view, work, peers, isKnown).map((time, slot) => time + (gaps[slot] as number));
  const lost = excess.map((time, slot) => (Number.isNaN(late[slot]) ? time : Math.min(time, late[slot] as number)));
  lost.forEach((time, slot) => {
    if (Number.isNaN(time)) return;
    state.judgedFrom[slot] ??= view.step;
    const share = time / stepTime;
    const cusum = (state.cusums[slot] ??= newCusum());
    if (hasGrown(cusum, time, stepTime, minEffect)) Object.assign(cusum, newCusum());
    accumulate(cusum, view.step, time, stepTime, state.noise);
    state.recent[slot] = runningMean(state.recent[slot], share);
    state.recentExcess[slot] = runningMean(state.recentExcess[slot], (excess[slot] as number) / stepTime);
  });
  watchNoise(state, lost, stepTime, before);
  end(state, minEffect);
  charge(state, lost, stepTime);
  begin(state, window, minEffect);
  learn(state, view, models, work, minEffect);
}

/** Steps of ranks that were not under suspicion before; while one is likely to straggle the others' waits are no noise. */
function watchNoise(state: StragglerState, lost: readonly number[], stepTime: number, before: readonly number[]): void {
  if (state.episodes.length > 0 || state.cusums.some((cusum) => cusum.sum >= ALARM / 2)) return;
  const stride = Math.max(1, Math.floor(lost.length / NOISE_SLOTS));
  lost.forEach((time, slot) => {
    if (Number.isNaN(time) || (slot + state.steps) % stride !== 0 || (before[slot] ?? 0) > ALARM / 4) return;
    observeNoise(state.noise, slot, time / stepTime);
  });
  renewNoise(state.noise);
}

/** Time the others waited for a slot in groups of its peers; NaN where no such group was recorded. */
function latenessBySlot(view: StepView, { byReplica }: Peers, n: number): BySlot {
  const late = new Float64Array(n).fill(Number.NaN);
  for (const group of view.groups) {
    if (!waitsTell(group, view, byReplica)) continue;
    const waits = lateness(group);
    group.slots.forEach((slot, i) => {
      const known = late[slot] as number;
      late[slot] = (Number.isNaN(known) ? 0 : known) + (waits[i] as number);
    });
  }
  return late;
}

/**
 * By slot: host time that no row shows, only longer gaps between steps or between the phases of one (a host that launches
 * late all through the step: vllm-project/vllm#52777). Where no wait can confirm it, a gap may as well be waiting, and
 * counts nothing; nor does a gap that has grown on all ranks.
 */
function excessGaps(state: StragglerState, view: StepView, late: BySlot): number[] {
  const between = excessOver(state.gaps, view.gap, late);
  const inside = excessOver(state.idles, view.idle, late);
  return between.map((excess, slot) => excess + (inside[slot] as number));
}

function excessOver(usual: readonly number[], now: BySlot, late: BySlot): number[] {
  const grown: number[] = [];
  for (let slot = 0; slot < late.length; slot++) {
    const time = now[slot] as number;
    grown.push(Number.isNaN(late[slot]) ? Number.NaN : time - (usual[slot] ?? time));
  }
  const common = Math.max(0, lowerMedian(grown) || 0);
  return grown.map((growth) => (growth > common ? growth - common : 0));
}

function modelOf(state: StragglerState, view: StepView, topology: JobTopology, slot: number): WorkModel {
  const key = `${topology.stages[slot]}|${view.graph[slot]}`;
  let model = state.models.get(key);
  if (!model) state.models.set(key, (model = newWorkModel()));
  return model;
}

const runningMean = (known: number | undefined, value: number): number =>
  (1 - RECENT_RATE) * (known ?? 0) + RECENT_RATE * value;

/** By slot, nanoseconds: work beyond what was expected of it and has happened to its peers too; NaN where unknown. */
function excessWork(
  models: readonly WorkModel[],
  view: StepView,
  work: readonly number[],
  { sets, byReplica }: Peers,
  isKnown: boolean,
): number[] {
  const due = models.map((model, slot) => expected(model, slot, view.tokens[slot] as number));
  const ratios = work.map((time, slot) => time / (due[slot] as number));
  const excess = new Array<number>(work.length).fill(Number.NaN);
  for (const peers of sets) {
    // While one of them is known to straggle nothing is learnt: what equal work takes is what it takes the others.
    const tell = isKnown && peers.length > 1 && haveEqualWork(view, peers);
    const others = tell ? lowerMedian(peers.map((slot) => work[slot] as number)) : Number.NaN;
    // Peers run faster while they wait (less power drawn): that does not make the rank slower. A replica's contexts may.
    const least = byReplica || (tell && peers.length === 2) ? 0 : 1;
    // Where a stage has one rank only, the whole job says what is common.
    const common = lowerMedian(peers.length > 1 ? peers.map((slot) => ratios[slot] as number) : ratios);
    for (const slot of peers) {
      const usual = (due[slot] as number) * Math.max(least, common);
      excess[slot] = (work[slot] as number) - (Number.isNaN(usual) ? others : usual);
    }
  }
  return excess;
}

const haveEqualWork = ({ tokens, graph }: StepView, [first, ...others]: readonly number[]): boolean =>
  others.every((slot) => tokens[slot] === tokens[first as number] && graph[slot] === graph[first as number]);

/** Closes what is over: for some time its ranks have cost less than half of the smallest effect, and have no excess. */
function end(state: StragglerState, minEffect: number): void {
  state.episodes = state.episodes.filter((episode) => {
    const over = episode.slots.every(
      (slot) => (state.recent[slot] as number) < minEffect / 2 && (state.recentExcess[slot] as number) < minEffect,
    );
    if (over) for (const slot of episode.slots) state.cusums[slot] = newCusum();
    return !over;
  });
}

function charge(state: StragglerState, lost: readonly number[], stepTime: number): void {
  for (const episode of state.episodes) {
    episode.lost += Math.max(0, ...episode.slots.map((slot) => lost[slot] as number).filter((time) => time > 0));
    episode.time += stepTime;
    episode.steps++;
  }
}

/** Opens an episode for a rank whose loss has become certain, together with those whose loss began with it. */
function begin(state: StragglerState, window: JobWindow, minEffect: number): void {
  for (const slot of losing(state, ALARM, minEffect)) {
    const cusum = state.cusums[slot] as Cusum;
    const onset = onsetIn(state, slot);
    const { cause } = attribute(window, slot, onset);
    const near = (step: number): boolean => Math.abs(step - onset) <= SAME_ONSET_STEPS;
    const known = state.episodes.find((episode) => episode.cause === cause && near(episode.onsetStep));
    if (state.episodes.some((episode) => episode.slots.includes(slot))) continue;
    if (known) known.slots.push(slot);
    else {
      const likely = losing(state, ALARM / 2, minEffect).filter((other) => near(onsetIn(state, other)));
      const slots = likely.filter((other) => other === slot || attribute(window, other, onset).cause === cause);
      const { lost, time, steps } = cusum;
      state.episodes.push({ ...newEpisode(window, slots, onset, state.noise.scale), lost, time, steps });
    }
    state.recent[slot] = Math.max(state.recent[slot] as number, lostShare(cusum));
  }
}

/** What was so when it could first be judged has been so from the start on. */
function onsetIn({ cusums, judgedFrom, firstStep }: StragglerState, slot: number): number {
  const onset = onsetOf(cusums[slot] as Cusum);
  return onset > (judgedFrom[slot] as number) ? onset : firstStep;
}

/** Slots without an episode that have lost time beyond doubt of this level. */
function losing(state: StragglerState, level: number, minEffect: number): number[] {
  const found: number[] = [];
  for (let slot = 0; slot < state.cusums.length; slot++) {
    const cusum = state.cusums[slot];
    if (cusum === undefined || cusum.sum <= level || !isWorthTelling(cusum, minEffect)) continue;
    if (!state.episodes.some((episode) => episode.slots.includes(slot))) found.push(slot);
  }
  return found;
}

function isWorthTelling(cusum: Cusum, minEffect: number): boolean {
  const share = lostShare(cusum);
  return share >= minEffect && (share >= LARGE_SHARE || cusum.lost >= ENOUGH_NS);
}

const hasGrown = (cusum: Cusum, lost: number, stepTime: number, minEffect: number): boolean =>
  cusum.sum > ALARM &&
  !isWorthTelling(cusum, minEffect) &&
  lost >= LARGE_SHARE * stepTime &&
  lost > (GROWN * cusum.lost) / cusum.steps;

/** Nothing is learnt from a step in which something may be wrong, nor while an episode lasts. */
function learn(
  state: StragglerState,
  view: StepView,
  models: readonly WorkModel[],
  work: readonly number[],
  minEffect: number,
): void {
  if (state.episodes.length > 0 || state.cusums.some((cusum) => cusum.sum >= ALARM / 2)) return;
  const n = work.length;
  const stride = Math.max(1, Math.floor(n / SAMPLES_PER_STEP));
  work.forEach((time, slot) => {
    if (Number.isNaN(time)) return;
    const most = minEffect * (view.stepTime[slot] as number);
    learnUsual(state.gaps, slot, view.gap[slot] as number, most);
    learnUsual(state.idles, slot, view.idle[slot] as number, most);
    const model = models[slot] as WorkModel;
    const tokens = view.tokens[slot] as number;
    adjustOffset(model, slot, tokens, time);
    if ((slot + state.steps) % stride === 0) takeSample(model, tokens, time);
  });
  for (const model of state.models.values()) refit(model);
}

/** Moves what is usual for a slot towards what it is now, of which no more than `most` counts as new. */
function learnUsual(usual: number[], slot: number, now: number, most: number): void {
  if (Number.isNaN(now)) return;
  const known = usual[slot] ?? now;
  usual[slot] = known + RECENT_RATE * Math.max(-most, Math.min(most, now - known));
}
