import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import { newRing, pushRing, type Ring, ringValues } from './ring.js';
import { median } from './statistics.js';

/** How long steps that only decode took with CUDA graphs, by decode tokens. Plain data. */
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

/** Takes in a step that decodes only, in whatever way it ran. */
export function learnDecode(past: DecodePast, view: StepView, decode: number): void {
  let ring = past.get(decode);
  if (!ring) past.set(decode, (ring = newRing(STEPS)));
  pushRing(ring, stepTimeOf(view));
}

/** Time of a step that decodes so many tokens: of the same number, else the next larger one known; NaN unknown. */
export function decodeTime(past: DecodePast, decode: number): number {
  let best: [number, Ring] | undefined;
  for (const [tokens, ring] of past)
    if (ring.count >= KNOWN_AT && tokens >= decode && (!best || tokens < best[0])) best = [tokens, ring];
  return best ? median(ringValues(best[1])) : Number.NaN;
}
