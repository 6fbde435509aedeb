import type { Cause } from '../../protocol/incident.js';
import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import { servingTokens } from '../reference/decode-past.js';
import { newRing, pushRing, type Ring, ringValues } from '../reference/ring.js';
import { newSpell, observeSpell, type Spell } from '../reference/spell.js';
import { quantile } from '../reference/statistics.js';
import { episodeFinding, ms, rounded } from './episode-finding.js';
import type { Detector, Finding, JobWindow } from './finding.js';
import type { DetectorParams } from './params.js';

/**
 * A pause of the whole job that is over, or comes again and again. Informs, never pages.
 *
 * Signature: a step takes five times as long as quick steps of the same shape do, and more than a second longer.
 * Checkpoints and evaluations are not counted, nor the time in which an engine has no requests. The reference is the fastest fifth of the last steps, not their mean: where
 * every second step is slow, the mean lies between and nothing would stand out. The cause is what took nearly all of it:
 * waiting for input, or host time of the ranks that the others waited for; else it is unknown.
 */
export const transientStall: Detector<StallState> = {
  kind: 'transient_stall',
  initial: () => ({
    past: new Map(),
    spell: newSpell(),
    hits: [],
    longestMs: 0,
    usualMs: 0,
    late: [],
    cause: 'unknown',
  }),
  step,
};

export interface StallState {
  /** Shape of the step -> its last times. */
  past: Map<string, Ring>;
  spell: Spell;
  /** Steps that stalled in the episode, the last ones. */
  hits: number[];
  longestMs: number;
  usualMs: number;
  /** Slots whose own time the last stall was, where that can be told. */
  late: number[];
  cause: Cause;
}

/** Of the stall. */
const NEARLY_ALL = 0.8;
const STEPS = 64;
const KNOWN_AT = 8;
const RULE = { window: 1, hits: 1, share: 0, quiet: 4 };
const MAX_HITS = 16;
const PAUSES = ['checkpoint', 'evaluation'];

type Params = DetectorParams['transient_stall'];

function step(state: StallState, { topology, views }: JobWindow, { transient_stall }: DetectorParams): Finding[] {
  const view = views.at(-1) as StepView;
  observe(state, view, transient_stall);
  const { episode } = state.spell;
  // It is over only once a step has followed; the last step of a process that ended may be its end.
  if (!episode || episode.steps < 2) return [];
  const period = periodOf(state.hits);
  const ranks = state.late.map((slot) => topology.ranks[slot] as number);
  const often = period > 0 ? ` every ${period} steps` : '';
  return [
    episodeFinding('transient_stall', topology, episode, {
      subject: { ranks },
      cause: state.cause,
      summary: () => `the job stalls${often}: a step takes up to ${state.longestMs} ms instead of ${state.usualMs} ms`,
      confidence: 0.9,
      evidence: {
        longest_ms: state.longestMs,
        usual_ms: state.usualMs,
        ...(period > 0 ? { period_steps: period } : {}),
      },
      runnerUp: { kind: 'straggler', why_not: 'it does not last: steps between take as long as usual' },
    }),
  ];
}

function observe(state: StallState, view: StepView, params: Params): void {
  const minLost = params.min_seconds * 1e9;
  const key = shapeOf(view);
  let past = state.past.get(key);
  if (!past) state.past.set(key, (past = newRing(STEPS)));
  const time = stepTimeOf(view) - pausedTime(view) - withoutWork(view);
  const known = past.count >= KNOWN_AT && time > minLost;
  const usual = !known ? Number.NaN : quantile(Float64Array.from(ringValues(past)).sort(), 0.2);
  const lost = time - usual;
  const hit = time > params.ratio * usual && lost > minLost;
  pushRing(past, time);
  if (hit) {
    if (!state.spell.episode) Object.assign(state, { hits: [], longestMs: 0 });
    state.hits = [...state.hits, view.step].slice(-MAX_HITS);
    state.longestMs = Math.max(state.longestMs, ms(time));
    state.usualMs = rounded(usual / 1e6);
    state.late = lateSlots(view, lost);
    state.cause = causeOf(view, state.late, lost);
  }
  observeSpell(state.spell, { step: view.step, startNs: view.startNs, lost: hit ? lost : 0, time, hit }, RULE);
}

/** Steps of one shape are compared: graph bucket, decode tokens, and prefills within a factor of two, whose squares differ by four. */
function shapeOf(view: StepView): string {
  const { prefill_tokens, decode_tokens } = view.serving;
  return `${view.graph[0]}|${decode_tokens[0]}|${Math.round(Math.log2(1 + (prefill_tokens[0] as number)))}`;
}

function pausedTime(view: StepView): number {
  let longest = 0;
  for (const phase of PAUSES) for (const time of view.phases.get(phase) ?? []) if (time > longest) longest = time;
  return longest;
}

/** Time before a step in which nobody decodes: the engine had nothing to do until its prefills came. */
function withoutWork(view: StepView): number {
  const tokens = servingTokens(view);
  if (!tokens || tokens.decode > 0) return 0;
  const waited = Math.min(...view.gap.filter((time) => !Number.isNaN(time)));
  return Number.isFinite(waited) ? waited : 0;
}

function causeOf({ work, gap }: StepView, late: readonly number[], lost: number): Cause {
  const most = NEARLY_ALL * lost;
  if (work.data.some((time) => time >= most)) return 'data';
  // A gap that nobody waits for may as well be a wait for something else.
  const host = (slot: number): number => (work.host[slot] as number) + ((gap[slot] as number) || 0);
  return late.some((slot) => host(slot) >= most) ? 'host' : 'unknown';
}

/** Slots for which the others waited nearly all of it: they, and not the network, stood still. */
function lateSlots(view: StepView, lost: number): number[] {
  const late: number[] = [];
  for (const group of view.groups) {
    const most = Math.max(...group.durations);
    group.durations.forEach((duration, i) => {
      const slot = group.slots[i] as number;
      if (most - duration > NEARLY_ALL * lost && !late.includes(slot)) late.push(slot);
    });
  }
  return late.length < view.gap.length ? late : [];
}

/** Steps between stalls, where they come regularly; 0: they do not. */
function periodOf(hits: readonly number[]): number {
  if (hits.length < 4) return 0;
  const gaps = hits.slice(1).map((step, i) => step - (hits[i] as number));
  return gaps.every((gap) => gap === gaps[0]) ? (gaps[0] as number) : 0;
}
