import type { StepView } from '../pipeline/step-view.js';

/** The work a rank was given in a step; NaN where that is unknown. */
export interface WorkShape {
  readonly prefillTokens: number;
  readonly decodeTokens: number;
  /** Tokens attended to, summed over the batch. */
  readonly contextTokens: number;
  /** Requests. */
  readonly batch: number;
  /** Tokens worked on; of training summed over the microbatches. */
  readonly tokens: number;
  readonly microbatches: number;
  /** CUDA graph batch size: 0 eager, -1 unknown. */
  readonly graph: number;
}

/** Target beside phases and classes of work: from the end of the step before to the end of this one. */
export const STEP_TIME = 'step_time';

/** Numbers of a shape that a duration is predicted from, besides the bucket. */
export const FEATURES = [
  'prefillTokens',
  'decodeTokens',
  'contextTokens',
  'batch',
  'tokens',
  'microbatches',
  'graph',
] as const satisfies readonly (keyof WorkShape)[];
export type Feature = (typeof FEATURES)[number];

/** Durations are power laws of shapes more than sums of them: both are compared as logarithms. NaN where unknown. */
export const logFeature = (shape: WorkShape, feature: Feature): number => Math.log1p(Math.max(0, shape[feature]));

export type Launch = 'graph' | 'eager' | 'unknown';
export const launchOf = (graph: number): Launch => (graph > 0 ? 'graph' : graph === 0 ? 'eager' : 'unknown');

/**
 * Shapes that are calibrated together, such as `graph-32/decode`: one CUDA graph and one mix of work. An eager step is
 * never compared with a graph's.
 */
export function bucketOf(shape: WorkShape): string {
  const launch = launchOf(shape.graph);
  return `${launch === 'graph' ? `graph-${shape.graph}` : launch}/${mixOf(shape)}`;
}

function mixOf({ prefillTokens, decodeTokens, tokens }: WorkShape): string {
  if (prefillTokens > 0) return decodeTokens > 0 ? 'mixed' : 'prefill';
  if (decodeTokens > 0) return 'decode';
  return tokens > 0 ? 'train' : 'any';
}

/** What the rank of a slot was given in a step. */
export const shapeOf = (view: StepView, slot: number): WorkShape => ({
  prefillTokens: view.serving.prefill_tokens[slot] as number,
  decodeTokens: view.serving.decode_tokens[slot] as number,
  contextTokens: view.serving.context_tokens[slot] as number,
  batch: view.serving.batch[slot] as number,
  tokens: view.tokens[slot] as number,
  microbatches: view.microbatches[slot] as number,
  graph: view.graph[slot] as number,
});
