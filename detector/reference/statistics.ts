/** Robust statistics over small arrays; NaN values are left out. */

export function sortedKnown(values: ArrayLike<number>): Float64Array {
  if (values.length <= few.length) {
    const [sorted, count] = sortedForNow(values);
    return sorted.slice(0, count);
  }
  const known = new Float64Array(values.length);
  let count = 0;
  for (let i = 0; i < values.length; i++) if (!Number.isNaN(values[i] as number)) known[count++] = values[i] as number;
  return known.subarray(0, count).sort();
}

/** Median; of an even number of values the lower of the two middle ones, so that half of the ranks may be slow. */
export function lowerMedian(values: ArrayLike<number>): number {
  const [sorted, count] = sortedForNow(values);
  return count === 0 ? Number.NaN : (sorted[(count - 1) >> 1] as number);
}

export function median(values: ArrayLike<number>): number {
  const [sorted, count] = sortedForNow(values);
  return quantile(sorted, 0.5, count);
}

/** Medians of a few values are taken several times a step: for these the sort of typed arrays costs more than it does. */
const few = new Float64Array(32);

/** Like sortedKnown, but holds only until the next call; with the count of known values. */
function sortedForNow(values: ArrayLike<number>): [Float64Array, number] {
  if (values.length > few.length) {
    const sorted = sortedKnown(values);
    return [sorted, sorted.length];
  }
  let count = 0;
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    if (Number.isNaN(value)) continue;
    let at = count++;
    for (; at > 0 && (few[at - 1] as number) > value; at--) few[at] = few[at - 1] as number;
    few[at] = value;
  }
  return [few, count];
}

/** Quantile of the first `count` values of a sorted array by linear interpolation; NaN if there are none. */
export function quantile(sorted: Float64Array, q: number, count: number = sorted.length): number {
  if (count === 0) return Number.NaN;
  const at = q * (count - 1);
  const low = Math.floor(at);
  const a = sorted[low] as number;
  const b = sorted[Math.min(low + 1, count - 1)] as number;
  return a + (b - a) * (at - low);
}

/** Probability that a standard normal variable exceeds z: erfc by Chebyshev fit (Numerical Recipes, 1.2e-7 of itself). */
export function normalTail(z: number): number {
  const x = Math.abs(z) / Math.SQRT2;
  const t = 1 / (1 + x / 2);
  const coefficients = [
    0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368,
    -1.26551223,
  ];
  const erfc = t * Math.exp(coefficients.reduce((sum, c) => sum * t + c, 0) - x * x);
  return z >= 0 ? erfc / 2 : 1 - erfc / 2;
}

export function mean(values: ArrayLike<number>): number {
  let sum = 0;
  let count = 0;
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    if (Number.isNaN(value)) continue;
    sum += value;
    count++;
  }
  return count === 0 ? Number.NaN : sum / count;
}

/** Mean without the largest and smallest fifth (of three values or more at least one each). */
export function trimmedMean(values: ArrayLike<number>): number {
  const sorted = sortedKnown(values);
  const cut = sorted.length < 3 ? 0 : Math.max(1, Math.floor(sorted.length / 5));
  return mean(sorted.subarray(cut, sorted.length - cut));
}
