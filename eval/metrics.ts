/** Counts into figures: no figure of the scoreboard is made elsewhere. */

/** Share of what was said that is true; NaN where nothing was said. */
export const precision = (right: number, wrong: number): number => right / (right + wrong);

/** Share of what is true that was said; NaN where nothing is true. */
export const recall = (found: number, missed: number): number => found / (found + missed);

/** Harmonic mean of recall and precision; 0 where nothing right was said. */
export const f1 = ({ recall, precision }: { readonly recall: number; readonly precision: number }): number =>
  recall > 0 && precision > 0 ? (2 * recall * precision) / (recall + precision) : 0;

/** Median and maximum; NaN of nothing. */
export function medianAndMax(values: readonly number[]): { median: number; max: number } {
  if (values.length === 0) return { median: Number.NaN, max: Number.NaN };
  const sorted = [...values].sort((a, b) => a - b);
  const low = sorted[(sorted.length - 1) >> 1] as number;
  const high = sorted[sorted.length >> 1] as number;
  return { median: (low + high) / 2, max: sorted.at(-1) as number };
}

/** Upper end of the one-sided 95 % interval of a Poisson mean of which `count` events were seen: 2.996 for none. */
export function poissonUpper(count: number): number {
  let low = count;
  let high = count + 10 + 5 * Math.sqrt(count);
  for (let round = 0; round < 60; round++) {
    const middle = (low + high) / 2;
    if (atMost(count, middle) > 0.05) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/** Probability of at most `count` events of a Poisson mean. */
function atMost(count: number, mean: number): number {
  let logTerm = -mean;
  let sum = Math.exp(logTerm);
  for (let k = 1; k <= count; k++) {
    logTerm += Math.log(mean / k);
    sum += Math.exp(logTerm);
  }
  return sum;
}

/** Pairs counted: row -> column -> how often. */
export function confusion(pairs: Iterable<readonly [string, string]>): Map<string, Map<string, number>> {
  const rows = new Map<string, Map<string, number>>();
  for (const [row, column] of pairs) {
    let cells = rows.get(row);
    if (!cells) rows.set(row, (cells = new Map()));
    cells.set(column, (cells.get(column) ?? 0) + 1);
  }
  return rows;
}
