import { newRing, pushRing, type Ring, ringValues } from './ring.js';
import { median } from './statistics.js';

/**
 * How long a rank's own work should take, learnt from the job's own past for one shape of work (pipeline stage and
 * CUDA graph bucket), pooled over its ranks: a + b x tokens where tokens vary, else the median. The affine form is
 * that of ResiHP (arXiv 2605.06374) without its attention term. Each rank has a small lasting offset of its own:
 * GPUs of one host differ by 1-2 % by nature. Plain data, so that it goes into snapshots.
 */
export interface WorkModel {
  tokens: Ring;
  work: Ring;
  intercept: number;
  slope: number;
  /** Range of the tokens it was fitted to. */
  least: number;
  most: number;
  /** Samples taken when it was last fitted. */
  fittedAt: number;
  /** slot -> log ratio of the rank's work to the model's */
  offsets: Map<number, number>;
}

const CAPACITY = 256;
/** Fitting starts here: below, one odd sample moves the median. */
export const MIN_SAMPLES = 8;
/** Larger differences between ranks are not nature but what is looked for (measured: 1-2 % between GPUs of a host). */
const MAX_OFFSET = 0.03;
const OFFSET_RATE = 0.1;
/** Tokens that differ less are taken for equal. */
const SAME_TOKENS = 1.05;
/** A line needs more samples than a median before it can be trusted. */
const MIN_LINE_SAMPLES = 32;

export const newWorkModel = (): WorkModel => ({
  tokens: newRing(CAPACITY),
  work: newRing(CAPACITY),
  intercept: Number.NaN,
  slope: 0,
  least: Number.NaN,
  most: Number.NaN,
  fittedAt: 0,
  offsets: new Map(),
});

/** Takes in a sample of a step in which nothing was wrong. */
export function takeSample(model: WorkModel, tokens: number, work: number): void {
  pushRing(model.tokens, tokens);
  pushRing(model.work, work);
}

/** Moves a rank's own offset towards what it did in a step in which nothing was wrong. */
export function adjustOffset(model: WorkModel, slot: number, tokens: number, work: number): void {
  const known = expected(model, slot, tokens);
  if (!(known > 0 && work > 0)) return;
  const surprise = clamped(Math.log(work / known));
  model.offsets.set(slot, clamped((model.offsets.get(slot) ?? 0) + OFFSET_RATE * surprise));
}

const clamped = (offset: number): number => Math.max(-MAX_OFFSET, Math.min(MAX_OFFSET, offset));

/** Refits once a quarter more samples have come, but at least every 32: early fits change fast, late ones cost little. */
export function refit(model: WorkModel): void {
  const { count } = model.work;
  if (count < MIN_SAMPLES || count - model.fittedAt < Math.min(32, Math.max(1, model.fittedAt / 4))) return;
  model.fittedAt = count;
  const work = ringValues(model.work);
  const tokens = ringValues(model.tokens);
  const [least, most] = [Math.min(...tokens), Math.max(...tokens)];
  Object.assign(model, { least, most });
  model.slope = 0;
  model.intercept = median(work);
  if (!(most > SAME_TOKENS * least)) return;
  if (count < MIN_LINE_SAMPLES) model.intercept = Number.NaN;
  else fitLine(model, tokens, work);
}

/**
 * Own work expected of a rank, nanoseconds; NaN while too little is known, and of tokens far from all that were seen: a line
 * through a narrow range says nothing beyond half of its width.
 */
export function expected(model: WorkModel, slot: number, tokens: number): number {
  const { slope, least, most } = model;
  const reach = slope === 0 ? 0 : (most - least) / 2;
  if (tokens > Math.max(SAME_TOKENS * most, most + reach) || tokens < Math.min(least / SAME_TOKENS, least - reach))
    return Number.NaN;
  const shared = model.slope > 0 ? model.intercept + model.slope * tokens : model.intercept;
  return shared * Math.exp(model.offsets.get(slot) ?? 0);
}

/** Least squares on relative errors, reweighted (Huber, 5 rounds) so that slow samples do not bend it. */
function fitLine(model: WorkModel, tokens: Float64Array, work: Float64Array): void {
  let weights = work.map((value) => 1 / (value * value));
  let line: { intercept: number; slope: number } | undefined;
  for (let round = 0; round < 5; round++) {
    line = weightedLine(tokens, work, weights);
    if (!line) return;
    const { intercept, slope } = line;
    const errors = work.map((value, i) => Math.abs(value / Math.max(intercept + slope * (tokens[i] as number), 1) - 1));
    const limit = Math.max(1.345 * 1.4826 * median(errors), 0.005);
    weights = work.map((_, i) => {
      const fitted = Math.max(intercept + slope * (tokens[i] as number), 1);
      return Math.min(1, limit / (errors[i] as number)) / (fitted * fitted);
    });
  }
  if (line && line.slope > 0 && line.intercept + line.slope * Math.min(...tokens) > 0) Object.assign(model, line);
}

function weightedLine(
  x: Float64Array,
  y: Float64Array,
  w: Float64Array,
): { intercept: number; slope: number } | undefined {
  let [sw, sx, sy, sxx, sxy] = [0, 0, 0, 0, 0];
  for (let i = 0; i < x.length; i++) {
    const [xi, yi, wi] = [x[i] as number, y[i] as number, w[i] as number];
    sw += wi;
    sx += wi * xi;
    sy += wi * yi;
    sxx += wi * xi * xi;
    sxy += wi * xi * yi;
  }
  const determinant = sw * sxx - sx * sx;
  if (!(determinant > 1e-12 * sw * sxx)) return undefined;
  const slope = (sw * sxy - sx * sy) / determinant;
  return { slope, intercept: (sy - slope * sx) / sw };
}
