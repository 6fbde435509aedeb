import { falseDiscoveryControl } from '../baseline/false-discovery.js';
import { lateness } from '../pipeline/collectives.js';
import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import { type JobTopology, slotsByStage } from '../pipeline/topology.js';
import { servingTokens } from '../reference/decode-past.js';
import { newRing, pushRing, type Ring, ringValues } from '../reference/ring.js';
import { newSpell, observeSpell, type Spell, type SpellEpisode } from '../reference/spell.js';
import { lowerMedian, mean, median, normalTail } from '../reference/statistics.js';
import { expected, newWorkModel, refit, takeSample, type WorkModel } from '../reference/work-model.js';
import { episodeFinding, percent, rounded } from './episode-finding.js';
import type { Detector, Finding, JobWindow } from './finding.js';

/**
 * A rank's GPU is slow for the tokens it gets, in a job whose ranks get different ones: there it seldom comes last, so
 * that the others hardly wait for it and the straggler detector, which counts lost time, says nothing. It costs little
 * and never pages by itself, but the GPU is slow all the same.
 *
 * Signature: over 20 steps the rank's compute is 5 % longer than that of its peers for as many tokens (a line through the
 * tokens, as in ResiHP, arXiv 2605.06374, less what all ranks of the step have in common). Its mean residual is tested
 * against the spread of all ranks' residuals, with 1 % allowed for how GPUs differ by nature; of all ranks tested in a step
 * at most one in 1,000 of those believed is expected to be false (Benjamini and Hochberg 1995, so that a job of 1,024
 * ranks raises no more false alarms than one of 8), and it must be believed in most of the last steps. Ranks that get half
 * as many tokens again as the others are left out: longer sequences also cost more a token.
 */
export const slowRank: Detector<SlowRankState> = {
  kind: 'straggler',
  initial: () => ({ models: new Map(), pool: newRing(POOL), spread: Number.NaN, ranks: [], steps: 0 }),
  step,
};

export interface SlowRankState {
  /** By stage. */
  models: Map<number, WorkModel>;
  /** Residuals of ranks that are not suspected, and their standard deviation's worth. */
  pool: Ring;
  spread: number;
  /** By slot. */
  ranks: RankState[];
  steps: number;
}

interface RankState {
  residuals: Ring;
  /** Its tokens over its peers' mean. */
  tokens: Ring;
  spell: Spell;
  /** Of the last step in which it was believed. */
  slower: number;
}

const POOL = 1024;
const STEPS = 20;
const MIN_EFFECT = 0.05;
/** How far GPUs of one job lie apart by nature (1 to 2 % between two of a host), as a standard deviation. */
const BY_NATURE = 0.01;
const RATE = 1e-3;
const RULE = { window: 8, hits: 6, share: 0, quiet: 20 };
/** With fewer it cannot be said who is the odd one. */
const MIN_PEERS = 4;
const UNEQUAL = 1.05;
const MORE_TOKENS = 1.5;
/** Residuals a step that the pool takes, so that one step of a large job does not fill it. */
const SAMPLES_PER_STEP = 16;

function step(state: SlowRankState, { topology, views }: JobWindow): Finding[] {
  const view = views.at(-1) as StepView;
  if (state.steps++ > 0 && servingTokens(view) === undefined)
    for (const [stage, slots] of slotsByStage(topology))
      if (slots.length >= MIN_PEERS && areUnequal(view, slots)) observe(state, view, stage, slots);
  return state.ranks.flatMap(({ spell, slower }, slot) =>
    spell.episode ? [found(slot, slower, spell.episode, topology)] : [],
  );
}

function areUnequal({ tokens }: StepView, slots: readonly number[]): boolean {
  const own = slots.map((slot) => tokens[slot] as number);
  return Math.max(...own) > UNEQUAL * Math.min(...own);
}

function observe(state: SlowRankState, view: StepView, stage: number, slots: readonly number[]): void {
  let model = state.models.get(stage);
  if (!model) state.models.set(stage, (model = newWorkModel()));
  const logs = slots.map((slot) => {
    const due = expected(model, slot, view.tokens[slot] as number);
    return Math.log((view.work.compute[slot] as number) / due);
  });
  const common = lowerMedian(logs);
  const usual = mean(slots.map((slot) => view.tokens[slot] as number));
  slots.forEach((slot, i) => {
    const residual = (logs[i] as number) - common;
    if (Number.isNaN(residual)) return;
    const rank = (state.ranks[slot] ??= newRank());
    pushRing(rank.residuals, residual);
    pushRing(rank.tokens, (view.tokens[slot] as number) / usual);
  });
  const believed = believedOf(state, slots);
  const waits = waitsBySlot(view);
  for (const slot of slots) follow(state.ranks[slot], view, slot, believed.has(slot), waits.get(slot) ?? 0);
  learn(state, model, view, slots, logs, common);
}

const newRank = (): RankState => ({ residuals: newRing(STEPS), tokens: newRing(STEPS), spell: newSpell(), slower: 0 });

/** Slots whose mean residual over the last steps is beyond doubt, all ranks of the stage considered. */
function believedOf(state: SlowRankState, slots: readonly number[]): Set<number> {
  const error = Math.hypot(state.spread / Math.sqrt(STEPS), BY_NATURE);
  const pValues = slots.map((slot) => {
    const rank = state.ranks[slot];
    if (!rank || rank.residuals.count < STEPS || mean(ringValues(rank.tokens)) > MORE_TOKENS) return undefined;
    return normalTail(mean(ringValues(rank.residuals)) / error);
  });
  const believed = falseDiscoveryControl(pValues, RATE).map((i) => slots[i] as number);
  return new Set(believed.filter((slot) => slownessOf(state.ranks[slot] as RankState) >= MIN_EFFECT));
}

const slownessOf = ({ residuals }: RankState): number => Math.exp(mean(ringValues(residuals))) - 1;

function follow(rank: RankState | undefined, view: StepView, slot: number, hit: boolean, waited: number): void {
  if (!rank) return;
  if (hit) rank.slower = slownessOf(rank);
  // Others also wait for the rank because of its tokens.
  const excess = (view.work.compute[slot] as number) * (1 - 1 / (1 + rank.slower));
  const lost = hit ? Math.max(0, Math.min(waited, excess)) : 0;
  observeSpell(rank.spell, { step: view.step, startNs: view.startNs, lost, time: stepTimeOf(view), hit }, RULE);
}

/** How long others waited for each slot, in groups of its own stage. */
function waitsBySlot(view: StepView): Map<number, number> {
  const waits = new Map<number, number>();
  for (const group of view.groups) {
    if (!group.sameStage) continue;
    const late = lateness(group);
    group.slots.forEach((slot, i) => {
      waits.set(slot, (waits.get(slot) ?? 0) + (late[i] as number));
    });
  }
  return waits;
}

/** Nothing is learnt from ranks that are, or may be, slow. */
function learn(
  state: SlowRankState,
  model: WorkModel,
  view: StepView,
  slots: readonly number[],
  logs: readonly number[],
  common: number,
): void {
  const stride = Math.max(1, Math.floor(slots.length / SAMPLES_PER_STEP));
  slots.forEach((slot, i) => {
    const rank = state.ranks[slot];
    if ((slot + state.steps) % stride !== 0 || (rank && slownessOf(rank) > MIN_EFFECT / 2)) return;
    const work = view.work.compute[slot] as number;
    if (work > 0) takeSample(model, view.tokens[slot] as number, work);
    if (!Number.isNaN(logs[i])) pushRing(state.pool, (logs[i] as number) - common);
  });
  refit(model);
  if (state.pool.count >= STEPS && state.steps % STEPS === 0)
    state.spread = 1.4826 * median(ringValues(state.pool).map(Math.abs));
}

function found(slot: number, slower: number, episode: SpellEpisode, topology: JobTopology): Finding {
  const rank = topology.ranks[slot] as number;
  const host = topology.hosts[slot] as string;
  return episodeFinding('straggler', topology, episode, {
    key: `slow=${rank}`,
    subject: { ranks: [rank], hosts: host === '' ? [] : [host] },
    cause: 'compute',
    summary: ({ msPerStep }) =>
      `rank ${rank} computes ${percent(slower)} % longer than its peers for as many tokens; as lengths vary, the others wait for it only ${msPerStep} ms a step`,
    confidence: 0.85,
    evidence: { slower: rounded(slower) },
    runnerUp: {
      kind: 'load_imbalance',
      why_not: 'tokens do not explain it: over the last steps it had no more than others',
    },
  });
}
