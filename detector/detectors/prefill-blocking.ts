import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import { type DecodePast, decodeTime, graphOf, largest, learnDecode, servingTokens } from '../reference/decode-past.js';
import { hasHits, newSpell, observeSpell, type Spell } from '../reference/spell.js';
import { episodeFinding, ms, percent, rounded } from './episode-finding.js';
import type { Detector, Finding, JobWindow } from './finding.js';
import type { DetectorParams } from './params.js';

/**
 * Prefills in the batch make the requests that decode in it wait for a multiple of a decode step.
 *
 * Signature: a step that prefills and decodes takes more than `ratio` times what decoding the
 * same tokens alone takes in this job; steps that decode only are as they were. Persistence: three such steps that lose a
 * fifth of the time since the first of them, however many decodes lie between: a whole prompt of 4,000 tokens takes as
 * long as a dozen (h200-tp2). Prefills with nobody decoding are nobody's loss. A threshold of 1.5 x
 * holds for a service with a stated objective; without one, chunked prefill as engines are tuned (up to about 3 x) must
 * stay silent. What launching kernels one by one takes is not the prefill's: of such a step its GPU time counts where it
 * is known, else what as many tokens took in a graph, else what it takes beyond launching (`timeBeyondLaunching`).
 */
export const prefillBlocking: Detector<PrefillState> = {
  kind: 'prefill_blocking',
  initial: () => ({
    past: new Map(),
    mixedPast: new Map(),
    eager: [],
    spell: newSpell(),
    sinceHit: 0,
    longestLull: 0,
    culprits: [],
    victims: [],
    longestMs: 0,
    decodeMs: 0,
    tokens: 0,
  }),
  step,
};

export interface PrefillState {
  past: DecodePast;
  /** Steps that prefill as well, by the size of the graph that ran them. */
  mixedPast: DecodePast;
  /** The last steps launched kernel by kernel. */
  eager: { tokens: number; time: number }[];
  spell: Spell;
  /** Decoding steps since the last that was held up, and the most of them between two such steps of the spell. */
  sinceHit: number;
  longestLull: number;
  /** Requests whose prefill blocked, and of those that rows name the ones that decoded meanwhile; latest last. */
  culprits: string[];
  victims: string[];
  longestMs: number;
  decodeMs: number;
  tokens: number;
}

const RULE = { window: 64, hits: 3, quiet: 8 };
/** It is over after a lull several times as long as those in it: the chance of so long a one among random arrivals is e^-3. */
const LULLS = 3;
const EAGER_STEPS = 32;
const MAX_REQUESTS = 16;

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
        ...(state.victims.length > 0 ? { held_up: state.victims.join(', ') } : {}),
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
  { ratio, min_effect }: DetectorParams['prefill_blocking'],
): void {
  const time = stepTimeOf(view);
  const alone = prefill > 0 ? decodeTime(state.past, decode) : Number.NaN;
  if (prefill === 0 && !view.launchBound) learnDecode(state.past, view, decode);
  const captured = graphOf(view);
  if (prefill > 0 && captured > 0) learnDecode(state.mixedPast, view, captured);
  const worked = view.launchBound ? timeBeyondLaunching(state, view, prefill + decode) : time;
  const hit = prefill > 0 && worked > ratio * alone;
  if (hit) {
    if (!state.spell.episode) state.longestMs = 0;
    state.longestMs = Math.max(state.longestMs, ms(time));
    state.decodeMs = ms(alone);
    state.tokens = prefill;
    for (const [request, tokens] of view.requests) {
      const known = tokens > 0 ? 'culprits' : 'victims';
      if (!state[known].includes(request)) state[known] = [...state[known], request].slice(-MAX_REQUESTS);
    }
  }
  if (hit) state.longestLull = Math.max(state.longestLull, state.sinceHit);
  state.sinceHit = hit ? 0 : state.sinceHit + 1;
  const lost = hit ? worked - alone : 0;
  const quiet = Math.min(RULE.window, Math.max(RULE.quiet, LULLS * state.longestLull));
  observeSpell(
    state.spell,
    { step: view.step, startNs: view.startNs, lost, time, hit },
    { ...RULE, share: min_effect, quiet },
  );
  if (!state.spell.episode && !hasHits(state.spell))
    Object.assign(state, { culprits: [], victims: [], sinceHit: 0, longestLull: 0 });
}

/**
 * What a step launched kernel by kernel takes because of what it works on. Work grows at least as its tokens do: a step
 * of twice the tokens that takes hardly longer says that this one takes what launching takes.
 */
function timeBeyondLaunching(state: PrefillState, view: StepView, tokens: number): number {
  const time = stepTimeOf(view);
  const known = state.eager;
  state.eager = [...known, { tokens, time }].slice(-EAGER_STEPS);
  const busy = largest(view.busy);
  if (busy > 0) return Math.min(time, busy);
  const inGraph = decodeTime(state.mixedPast, tokens);
  if (inGraph > 0) return Math.min(time, inGraph);
  const least = (alike: (step: { tokens: number }) => boolean): number =>
    Math.min(...known.filter(alike).map((step) => step.time));
  const smaller = least((step) => 2 * step.tokens <= tokens);
  const larger = least((step) => step.tokens >= 2 * tokens);
  return Math.min(Number.isFinite(smaller) ? time - smaller : time, Math.max(0, larger - time));
}
