import type { Population } from '../baseline/baseline.js';
import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import { type DecodePast, decodeTime, largest, learnDecode, servingTokens } from '../reference/decode-past.js';
import { newSpell, observeSpell, type Spell, spellRule } from '../reference/spell.js';
import { episodeFinding, ms, percent, rounded } from './episode-finding.js';
import type { Detector, Finding, JobWindow } from './finding.js';
import type { DetectorParams } from './params.js';

/**
 * Decode steps are launched kernel by kernel where CUDA graphs are expected.
 *
 * Signature (SGLang issue 33483, StriaTrace's case 8): steps that only decode have graph 0, and either the same number
 * of tokens ran in a graph before in this job, or in the fleet (baseline), or GPU time is known and the GPU idles between
 * many launches. Eager prefills are normal. What is lost is the time over that of the graph, else the time the GPU was idle. Without one of
 * the two it cannot be known whether graphs would be faster, and nothing is said.
 */
export const noCudaGraph: Detector<NoGraphState> = {
  kind: 'no_cuda_graph',
  initial: () => ({ past: new Map(), spell: newSpell(), bucket: -1, launches: 0, graphMs: 0, eagerMs: 0 }),
  step,
};

export interface NoGraphState {
  past: DecodePast;
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
/** A GPU this busy has nothing to gain. */
const MAX_BUSY = 0.7;

type Params = DetectorParams['no_cuda_graph'];

function step(state: NoGraphState, window: JobWindow, { no_cuda_graph }: DetectorParams): Finding[] {
  const { topology, views, expectations } = window;
  const view = views.at(-1) as StepView;
  const tokens = servingTokens(view);
  if (tokens && tokens.decode > 0 && tokens.prefill === 0)
    observe(state, view, tokens.decode, expectations, no_cuda_graph);
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
  decode: number,
  expectations: Population | undefined,
  params: Params,
): void {
  const graphs = view.graph.filter((_, slot) => !Number.isNaN(view.stepTime[slot] as number));
  const eager = graphs.length > 0 && graphs.every((graph) => graph === 0);
  const time = stepTimeOf(view);
  const own = eager ? decodeTime(state.past, decode) : Number.NaN;
  const fleet =
    eager && expectations?.expectsGraph(decode) ? expectations.graphUse(decode)?.with_graph?.q50 : undefined;
  const withGraph = Number.isNaN(own) ? fleet || Number.NaN : own;
  if (!eager && graphs.every((graph) => graph > 0)) learnDecode(state.past, view, decode);
  const busy = largest(view.busy);
  const launches = largest(view.launches) || 0;
  const idle = launches >= MIN_LAUNCHES && busy < MAX_BUSY * time ? time - busy : Number.NaN;
  const lost = Number.isNaN(withGraph) ? idle : time - withGraph;
  const hit = eager && lost > 0;
  if (hit) {
    const graphMs = Number.isNaN(withGraph) ? 0 : ms(withGraph);
    Object.assign(state, { bucket: decode, launches, graphMs, eagerMs: rounded(time / 1e6) });
  }
  observeSpell(
    state.spell,
    { step: view.step, startNs: view.startNs, lost: hit ? lost : 0, time, hit },
    spellRule(RULE, params),
  );
}
