import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import { type DecodePast, decodeTime, learnDecode, servingTokens } from '../reference/decode-past.js';
import { newSpell, observeSpell, type Spell, spellRule } from '../reference/spell.js';
import { episodeFinding, ms, percent, rounded } from './episode-finding.js';
import type { Detector, Finding, JobWindow } from './finding.js';
import type { DetectorParams } from './params.js';

/**
 * Prefills in the batch make the requests that decode in it wait for a multiple of a decode step.
 *
 * Signature: a step that prefills and decodes takes more than `ratio` times what decoding the
 * same tokens alone takes in this job; steps that decode only are as they were. Persistence: a quarter of the last 12 decoding
 * steps, losing a fifth of their time. Prefills with nobody decoding are nobody's loss. A threshold of 1.5 x
 * holds for a service with a stated objective; without one, chunked prefill as engines are tuned (up to about 3 x) must
 * stay silent.
 */
export const prefillBlocking: Detector<PrefillState> = {
  kind: 'prefill_blocking',
  initial: () => ({ past: new Map(), spell: newSpell(), culprits: [], longestMs: 0, decodeMs: 0, tokens: 0 }),
  step,
};

export interface PrefillState {
  past: DecodePast;
  spell: Spell;
  /** Requests whose prefill blocked, latest last. */
  culprits: string[];
  longestMs: number;
  decodeMs: number;
  tokens: number;
}

const RULE = { window: 12, quiet: 8 };
const MAX_CULPRITS = 16;

type Params = DetectorParams['prefill_blocking'];

function step(state: PrefillState, { topology, views }: JobWindow, { prefill_blocking }: DetectorParams): Finding[] {
  const view = views.at(-1) as StepView;
  const tokens = servingTokens(view);
  if (tokens && tokens.decode > 0) observe(state, view, tokens, prefill_blocking);
  const { episode } = state.spell;
  if (!episode) return [];
  const ratio = rounded(state.longestMs / state.decodeMs, 1);
  return [
    episodeFinding('prefill_blocking', topology, episode, {
      subject: { requests: state.culprits, instance: topology.hosts[0] || null },
      cause: 'workload',
      summary: ({ share }) =>
        `prefills hold up the requests that decode with them: a token takes up to ${state.longestMs} ms instead of ${state.decodeMs} ms (${percent(share)} % of the time)`,
      confidence: 0.9,
      evidence: {
        longest_step_ms: state.longestMs,
        decode_alone_ms: state.decodeMs,
        times_slower: ratio,
        prefill_tokens: state.tokens,
      },
      runnerUp: {
        kind: 'kv_recompute',
        why_not:
          'the prefill tokens are worked on for the first time, and steps that only decode take as long as before',
      },
    }),
  ];
}

function observe(
  state: PrefillState,
  view: StepView,
  { prefill, decode }: { prefill: number; decode: number },
  params: Params,
): void {
  const time = stepTimeOf(view);
  const alone = prefill > 0 ? decodeTime(state.past, decode) : Number.NaN;
  if (prefill === 0 && !view.launchBound) learnDecode(state.past, view, decode);
  const lost = time - alone;
  const hit = prefill > 0 && time > params.ratio * alone;
  if (hit) {
    if (!state.spell.episode) state.longestMs = 0;
    state.longestMs = Math.max(state.longestMs, ms(time));
    state.decodeMs = ms(alone);
    state.tokens = prefill;
    for (const [request, tokens] of view.requests)
      if (tokens > 0 && !state.culprits.includes(request))
        state.culprits = [...state.culprits, request].slice(-MAX_CULPRITS);
  }
  observeSpell(
    state.spell,
    { step: view.step, startNs: view.startNs, lost: hit ? lost : 0, time, hit },
    spellRule(RULE, params),
  );
  if (!state.spell.episode && !state.spell.recent.some((recent) => recent.hit)) state.culprits = [];
}
