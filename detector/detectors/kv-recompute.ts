import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import { largest, servingTokens } from '../reference/decode-past.js';
import { newRing, pushRing, type Ring } from '../reference/ring.js';
import { hasHits, newSpell, observeSpell, type Spell, type SpellStep } from '../reference/spell.js';
import { mean } from '../reference/statistics.js';
import { episodeFinding, percent, rounded } from './episode-finding.js';
import type { Detector, Finding, JobWindow } from './finding.js';
import type { DetectorParams } from './params.js';

/**
 * Work that was done is done again, since its KV cache was evicted or its request preempted.
 *
 * Signature: the engine says so (`recomputed_tokens`, a `kv_recompute` phase), or a request
 * whose prefill was complete is prefilled again, as much as before, in a step of its own. The time lost is the repeated
 * share of the tokens of the step. Threshold 5 % (the recompute tax of vLLM under realistic pressure is 10-23 %, vLLM RFC 54644). One
 * request that is preempted once is healthy (7.4 % of 19,801 were, 95.3 % of them once; the same RFC), and takes a few
 * steps in a row where prefills are cut: it takes work done again twice with steps between, or RUN steps in a row, or one
 * where the decode batch has fallen to half as well: what is recomputed cannot decode meanwhile.
 */
export const kvRecompute: Detector<RecomputeState> = {
  kind: 'kv_recompute',
  initial: () => ({
    prefilled: new Map(),
    spell: newSpell(),
    batches: newRing(BATCHES),
    requests: [],
    again: 0,
    all: 0,
    kv: -1,
    preempted: -1,
  }),
  step,
};

export interface RecomputeState {
  /** Request -> tokens of its last prefill and the step it ended at. */
  prefilled: Map<string, { tokens: number; step: number }>;
  spell: Spell;
  /** Decode tokens of the last steps that decoded. */
  batches: Ring;
  /** Requests that lost their cache, latest last. */
  requests: string[];
  /** Tokens of the episode: worked on again, and all. */
  again: number;
  all: number;
  kv: number;
  preempted: number;
}

const NO_TIME = new Float64Array(0);
const RULE = { window: 64, quiet: 24 };
const RUN = 12;
const BATCHES = 64;
const RECENT_BATCHES = 8;
const MAX_REQUESTS = 32;
/** Requests remembered; the oldest are forgotten first. */
const MAX_REMEMBERED = 4096;
/** A later prefill of about the same size is the same work. */
const SAME_WORK = 0.8;

function step(state: RecomputeState, { topology, views }: JobWindow, { kv_recompute }: DetectorParams): Finding[] {
  const view = views.at(-1) as StepView;
  const tokens = servingTokens(view);
  if (tokens) observe(state, view, tokens, kv_recompute.min_effect);
  const { episode } = state.spell;
  if (!episode) return [];
  const { requests, again, all, kv, preempted } = state;
  return [
    episodeFinding('kv_recompute', topology, episode, {
      subject: { requests, instance: topology.hosts[0] || null },
      cause: 'memory',
      summary: ({ msPerStep, share }) =>
        `evicted or preempted work is done again: ${percent(again / Math.max(1, all))} % of the tokens, ${msPerStep} ms a step (${percent(share)} %)`,
      confidence: requests.length > 0 ? 0.9 : 0.8,
      evidence: {
        recomputed_tokens: again,
        tokens: all,
        ...(kv >= 0 ? { kv_usage: rounded(kv) } : {}),
        ...(preempted >= 0 ? { preempted } : {}),
      },
      runnerUp: {
        kind: 'prefill_blocking',
        why_not: 'the prefilled tokens belong to requests that had been prefilled before, not to new ones',
      },
    }),
  ];
}

function observe(
  state: RecomputeState,
  view: StepView,
  { prefill, decode }: { prefill: number; decode: number },
  minEffect: number,
): void {
  const time = stepTimeOf(view);
  const all = Math.max(1, prefill + decode);
  const phase = largest(view.phases.get('kv_recompute') ?? NO_TIME);
  const told = largest(view.serving.recomputed_tokens) || 0;
  const again = told > 0 ? told : repeatedTokens(state, view, decode);
  const lost = phase > 0 ? phase : time * Math.min(1, again / all);
  const hit = lost > 0;
  if (hit && !state.spell.episode && !hasHits(state.spell)) Object.assign(state, { again: 0, all: 0 });
  state.again += again;
  state.all += all;
  state.kv = largest(view.serving.kv_usage) || -1;
  state.preempted = largest(view.serving.preempted) || -1;
  if (decode > 0) pushRing(state.batches, decode);
  const lasting = hit && (batchHasFallen(state.batches) || comesAgain(state.spell.recent));
  const rule = { ...RULE, share: minEffect, hits: lasting ? 1 : Number.POSITIVE_INFINITY };
  observeSpell(state.spell, { step: view.step, startNs: view.startNs, lost, time, hit }, rule);
  if (!state.spell.episode && !hasHits(state.spell)) state.requests = [];
}

/** Whether a step with a hit after these is one of several times, or of many in a row. */
function comesAgain(recent: readonly SpellStep[]): boolean {
  const before = recent.findLastIndex(({ hit }) => !hit);
  return recent.length - 1 - before >= RUN - 1 || recent.some(({ hit }, i) => hit && i < before);
}

/** The last steps decode half of what the steps before them did, or less. */
function batchHasFallen(batches: Ring): boolean {
  if (batches.count < BATCHES) return false;
  const inOrder = Array.from({ length: BATCHES }, (_, i) => batches.values[(batches.count + i) % BATCHES] as number);
  return 2 * mean(inOrder.slice(-RECENT_BATCHES)) <= mean(inOrder.slice(0, -RECENT_BATCHES));
}

/** Tokens of requests that are prefilled again after their prefill was over; in a mixed step it may be the next chunk. */
function repeatedTokens(state: RecomputeState, view: StepView, decode: number): number {
  let again = 0;
  for (const [request, tokens] of view.requests) {
    if (tokens === 0) continue;
    const known = state.prefilled.get(request);
    const repeats = known && view.step > known.step + 1 && decode === 0 && tokens >= SAME_WORK * known.tokens;
    if (repeats) {
      again += tokens;
      if (!state.requests.includes(request)) state.requests = [...state.requests, request].slice(-MAX_REQUESTS);
    }
    const continued = known && view.step <= known.step + 1 ? known.tokens : 0;
    state.prefilled.delete(request);
    state.prefilled.set(request, { tokens: continued + tokens, step: view.step });
  }
  for (const oldest of state.prefilled.keys()) {
    if (state.prefilled.size <= MAX_REMEMBERED) break;
    state.prefilled.delete(oldest);
  }
  return again;
}
