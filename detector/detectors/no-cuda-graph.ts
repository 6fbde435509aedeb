import type { Population } from '../baseline/baseline.js';
import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import { type DecodePast, decodeTime, graphOf, largest, learnDecode, servingTokens } from '../reference/decode-past.js';
import { newSpell, observeSpell, type Spell, spellRule } from '../reference/spell.js';
import { episodeFinding, ms, percent, rounded } from './episode-finding.js';
import type { Detector, Finding, JobWindow } from './finding.js';
import type { DetectorParams } from './params.js';

/**
 * Steps that decode are launched kernel by kernel where CUDA graphs are expected.
 *
 * Signature (SGLang issue 33483, StriaTrace's case 8): steps that only decode have graph 0, and either the same number
 * of tokens ran in a graph before in this job, or in the fleet (baseline), or GPU time is known and the GPU idles between
 * many launches. Eager prefills are normal, and steps that prefill as well in some engines: such a step counts where as
 * many tokens ran in a graph before, or where nothing ever did in this job, the GPU idles and it is no larger than what
 * vLLM captures by default; else a job that is never without a prefill, since it has become slow, would hide it. What is
 * lost is the time over that of the graph, else the time the GPU was idle. Without one of the two it cannot be known
 * whether graphs would be faster, and nothing is said.
 */
export const noCudaGraph: Detector<NoGraphState> = {
  kind: 'no_cuda_graph',
  initial: () => ({
    past: new Map(),
    mixedPast: new Map(),
    spell: newSpell(),
    bucket: -1,
    launches: 0,
    graphMs: 0,
    eagerMs: 0,
  }),
  step,
};

export interface NoGraphState {
  past: DecodePast;
  /** The same of steps that prefill as well, by the size of the graph. */
  mixedPast: DecodePast;
  spell: Spell;
  /** Of the last hit: decode tokens, launches, times. */
  bucket: number;
  launches: number;
  graphMs: number;
  eagerMs: number;
}

const RULE = { window: 10, quiet: 10 };
/** An iteration with fewer launches is no model run kernel by kernel (measured: 280 and more). */
const MIN_LAUNCHES = 50;
/** A GPU this busy has nothing to gain: in graphs it is to 93 % (h200-tp2, between fences) and 99.8 % (TraceLens, vLLM). */
const MAX_BUSY = 0.9;
/** Tokens of the largest graph that vLLM captures unless told otherwise (max_cudagraph_capture_size). */
const LARGEST_CAPTURED = 512;

function step(state: NoGraphState, window: JobWindow, { no_cuda_graph }: DetectorParams): Finding[] {
  const { topology, views, expectations } = window;
  const view = views.at(-1) as StepView;
  const tokens = servingTokens(view);
  if (tokens && tokens.decode > 0) observe(state, view, tokens, no_cuda_graph, expectations);
  const { episode } = state.spell;
  if (!episode) return [];
  const { launches, graphMs, eagerMs, bucket } = state;
  return [
    episodeFinding('no_cuda_graph', topology, episode, {
      subject: { graph: 0, ranks: topology.ranks.toSorted((a, b) => a - b) },
      cause: 'configuration',
      summary: ({ msPerStep, share }) =>
        `decode steps run without CUDA graphs: ${msPerStep} ms of a step are lost (${percent(share)} %)`,
      confidence: graphMs > 0 ? 0.95 : 0.8,
      evidence: {
        decode_tokens: bucket,
        eager_ms: eagerMs,
        ...(graphMs > 0 ? { with_graph_ms: graphMs } : {}),
        ...(launches > 0 ? { launches } : {}),
      },
      runnerUp: {
        kind: 'straggler',
        why_not:
          'all ranks launch their decode steps kernel by kernel; what differs between them is how fast they launch',
      },
    }),
  ];
}

function observe(
  state: NoGraphState,
  view: StepView,
  { prefill, decode }: { prefill: number; decode: number },
  params: DetectorParams['no_cuda_graph'],
  expectations: Population | undefined,
): void {
  const graphs = view.graph.filter((_, slot) => !Number.isNaN(view.stepTime[slot] as number));
  const eager = graphs.length > 0 && graphs.every((graph) => graph === 0);
  const captured = graphOf(view);
  if (captured > 0) learnDecode(prefill === 0 ? state.past : state.mixedPast, view, prefill === 0 ? decode : captured);
  const time = stepTimeOf(view);
  const withGraph = !eager
    ? Number.NaN
    : prefill === 0
      ? graphTime(state, decode, expectations)
      : decodeTime(state.mixedPast, prefill + decode);
  const lost = Number.isNaN(withGraph) ? idleTime(view, time) : time - withGraph;
  // How a step that prefills is launched says something only where that costs time.
  if (eager && prefill > 0 && !(lost > params.min_effect * time && graphsExpected(state, prefill + decode))) return;
  const hit = eager && lost > 0;
  if (hit) {
    const graphMs = Number.isNaN(withGraph) ? 0 : ms(withGraph);
    const launches = largest(view.launches) || 0;
    Object.assign(state, { bucket: decode, launches, graphMs, eagerMs: rounded(time / 1e6) });
  }
  observeSpell(
    state.spell,
    { step: view.step, startNs: view.startNs, lost: hit ? lost : 0, time, hit },
    spellRule(RULE, params),
  );
}

/** What a step that only decodes takes with a graph: in this job, else in the fleet; NaN unknown. */
function graphTime({ past }: NoGraphState, decode: number, expectations: Population | undefined): number {
  const own = decodeTime(past, decode);
  if (!Number.isNaN(own) || !expectations?.expectsGraph(decode)) return own;
  return expectations.graphUse(decode)?.with_graph?.q50 || Number.NaN;
}

/** Whether a step of so many tokens that prefills as well would run in a graph if the engine were set up to. */
const graphsExpected = ({ past, mixedPast }: NoGraphState, tokens: number): boolean =>
  !Number.isNaN(decodeTime(mixedPast, tokens)) ||
  (past.size === 0 && mixedPast.size === 0 && tokens <= LARGEST_CAPTURED);

/** Time within the step in which the GPU idles between many launches; NaN where it is busy, or it is not known. */
function idleTime(view: StepView, time: number): number {
  const inside = time - (largest(view.gap) || 0);
  const busy = largest(view.busy);
  return (largest(view.launches) || 0) >= MIN_LAUNCHES && busy < MAX_BUSY * inside ? inside - busy : Number.NaN;
}
