import { interpolate } from '../interpolate.js';
import { COST, ENGINE, SERVING } from '../measured-serving.js';
import type { StepCost } from './load.js';

export interface StepShape {
  readonly decodeTokens: number;
  /** KV entries that decodes read. */
  readonly decodeContext: number;
  readonly prefillTokens: number;
  /** Pairs of tokens that prefills attend over. */
  readonly prefillPairs: number;
}

/** GPU time of a step, `scale` times that of the recorded model. */
export function stepCost({ decodeTokens, decodeContext, prefillTokens, prefillPairs }: StepShape, scale = 1): StepCost {
  const tokens = decodeTokens + prefillTokens;
  const prefill =
    prefillTokens > 0 ? COST.prefillNs + COST.prefillTokenNs * prefillTokens + COST.prefillPairNs * prefillPairs : 0;
  return {
    attentionNs: (interpolate(COST.attentionNs, decodeContext) + prefill) * scale,
    mlpNs: interpolate(COST.mlpNs, tokens) * scale,
    allReduceNs: interpolate(COST.allReduceNs, tokens) * scale,
  };
}

export const decodeShape = (batch: number): StepShape => ({
  ...{ decodeTokens: batch, decodeContext: batch * SERVING.contextTokens, prefillTokens: 0, prefillPairs: 0 },
});

export const prefillShape = (tokens: number): StepShape => ({
  ...{ decodeTokens: 0, decodeContext: 0, prefillTokens: tokens, prefillPairs: tokens ** 2 / 2 },
});

export const totalNs = ({ attentionNs, mlpNs, allReduceNs }: StepCost): number => attentionNs + mlpNs + allReduceNs;

/** A decode step at batch 8, ns: what delays are measured against. */
export const NOMINAL_STEP_NS = totalNs(stepCost(decodeShape(8)));

/** The captured graph that holds so many tokens; 0 where none is large enough. */
export const graphFor = (tokens: number): number => ENGINE.graphs.find((size) => size >= tokens) ?? 0;
