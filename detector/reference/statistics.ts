/** Robust statistics over small arrays; NaN values are left out. */

export function sortedKnown(values: ArrayLike<number>): Float64Array {
  const known = new Float64Array(values.length);
  let count = 0;
  for (let i = 0; i < values.length; i++) if (!Number.isNaN(values[i] as number)) known[count++] = values[i] as number;
  return known.subarray(0, count).sort();
}

/** Median; of an even number of values the lower of the two middle ones, so that half of the ranks may be slow. */
export function lowerMedian(values: ArrayLike<number>): number {
  const sorted = sortedKnown(values);
  return sorted.length === 0 ? Number.NaN : (sorted[(sorted.length - 1) >> 1] as number);
}

export function median(values: ArrayLike<number>): number {
  return quantile(sortedKnown(values), 0.5);
}

/** Quantile of a sorted array by linear interpolation; NaN if it is empty. */
export function quantile(sorted: Float64Array, q: number): number {
  if (sorted.length === 0) return Number.NaN;
  const at = q * (sorted.length - 1);
  const low = Math.floor(at);
  const a = sorted[low] as number;
  const b = sorted[Math.min(low + 1, sorted.length - 1)] as number;
  return a + (b - a) * (at - low);
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
