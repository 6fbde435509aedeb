import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import { newRing, pushRing, type Ring, ringValues } from './ring.js';
import { median } from './statistics.js';

/** How long serving steps of one sort took, by their tokens or by the size of the CUDA graph that ran them. Plain data. */
export type DecodePast = Map<number, Ring>;

const STEPS = 32;
const KNOWN_AT = 3;

/** Tokens of a serving step, as the busiest of its ranks had them; undefined where no row says. */
export function servingTokens(view: StepView): { prefill: number; decode: number } | undefined {
  const prefill = largest(view.serving.prefill_tokens);
  const decode = largest(view.serving.decode_tokens);
  if (Number.isNaN(prefill) && Number.isNaN(decode)) return undefined;
  return { prefill: prefill || 0, decode: decode || 0 };
}

export function largest(values: Float64Array): number {
  let most = Number.NaN;
  for (const value of values) if (!(value <= most) && !Number.isNaN(value)) most = value;
  return most;
}

/** Takes in a step of so many tokens, in whatever way it ran. */
export function learnDecode(past: DecodePast, view: StepView, size: number): void {
  let ring = past.get(size);
  if (!ring) past.set(size, (ring = newRing(STEPS)));
  pushRing(ring, stepTimeOf(view));
}

/** Size of the graph that all ranks of a step ran; 0 where none was, or not by all, or it is not known. */
export function graphOf(view: StepView): number {
  let least = Number.POSITIVE_INFINITY;
  view.graph.forEach((graph, slot) => {
    if (!Number.isNaN(view.stepTime[slot] as number)) least = Math.min(least, graph);
  });
  return Number.isFinite(least) ? Math.max(0, least) : 0;
}

/** Time of a step of so many tokens: of as many, else the next larger number known; NaN unknown. */
export function decodeTime(past: DecodePast, size: number): number {
  let best: [number, Ring] | undefined;
  for (const [tokens, ring] of past)
    if (ring.count >= KNOWN_AT && tokens >= size && (!best || tokens < best[0])) best = [tokens, ring];
  return best ? median(ringValues(best[1])) : Number.NaN;
}
