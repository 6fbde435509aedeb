import { quantile } from '../reference/statistics.js';
import { groupBy } from './group-by.js';

/**
 * Split conformal prediction (Vovk; Mondrian: apart for each target and bucket), for runs that were never seen. Steps of
 * one run are alike, so their residuals alone are too narrow for the next run: on the recorded healthy runs a 90 % band
 * of one run alone holds only 64 to 93 % of the next. A run and a rank each have an effect of their own (other GPUs, clocks,
 * placement): residuals are taken about their rank's median and widened by normal effects whose variance is measured
 * on the runs and ranks at hand, starting from a prior that few of them cannot overrule.
 */
export interface Residual {
  readonly run: number;
  readonly rank: number;
  /** log(observed / predicted) */
  readonly value: number;
}

/** Plain data of the file. */
export interface Calibration {
  /** Residuals it rests on. */
  readonly rows: number;
  /** Standard deviations of the effects of a run and of a rank, in log duration. */
  readonly run_spread: number;
  readonly rank_spread: number;
  /** Share of held-out residuals of the same runs inside a 90 % band of these runs; null: too few. */
  readonly coverage: number | null;
  /** Sorted; as many order statistics as p-values can rest on. */
  readonly residuals: readonly number[];
  /** Mean excess beyond the 90th percentile: how fast the upper tail falls off. */
  readonly tail: number;
}

/** Lower and upper end of a 90 % band, and the middle, nanoseconds. */
export interface Band {
  readonly q05: number;
  readonly q50: number;
  readonly q95: number;
}

export interface Spreads {
  readonly run: number;
  readonly rank: number;
}

/**
 * Ranks of one host differ by 1-2 % by nature (h200-train). Of ten runs of one job (h200-tp2) nine lie within 0.3 % in
 * compute and within 1.2 % in step time; one is 3 % quicker.
 */
export const WORK_SPREAD: Spreads = { run: 0.01, rank: 0.007 };
/** All-reduces of the recorded healthy runs differ by 1-2 % from run to run, of one size by 6 %. */
export const TRANSFER_SPREAD: Spreads = { run: 0.02, rank: 0.01 };
/** How many runs (ranks) the prior is worth. */
const PRIOR_WEIGHT = 4;

/** Below, a 90 % band has no held-out value outside on either side. */
export const MIN_RESIDUALS = 20;
const MAX_KEPT = 512;
/** More residuals than that are thinned out before they are widened. */
const MAX_WIDENED = 4096;
/** No p-value is smaller: nobody has seen so many healthy steps. */
const LEAST_P = 1e-9;

/** Standard normal deviates, equally likely. */
const NORMAL_GRID = [
  -1.8627, -1.318, -1.01, -0.7764, -0.5791, -0.4023, -0.2372, -0.0784, 0.0784, 0.2372, 0.4023, 0.5791, 0.7764, 1.01,
  1.318, 1.8627,
];

/**
 * Calibrates one target in one bucket; undefined where residuals are too few. `checked` are residuals of the same runs
 * that nothing was fitted to; they tell how well calibrated it is, and then join.
 */
export function calibrate(
  calibration: readonly Residual[],
  checked: readonly Residual[],
  prior: Spreads,
): Calibration | undefined {
  const all = [...calibration, ...checked];
  if (all.length < MIN_RESIDUALS) return undefined;
  const { center, within, run_spread, rank_spread } = effectsOf(all, prior);
  const total = Math.hypot(run_spread, rank_spread);
  const stride = Math.ceil(within.length / MAX_WIDENED);
  const some = within.filter((_, i) => i % stride === 0);
  const widened = new Float64Array(some.length * NORMAL_GRID.length);
  some.forEach((value, i) => {
    NORMAL_GRID.forEach((z, k) => {
      widened[i * NORMAL_GRID.length + k] = center + value + total * z;
    });
  });
  widened.sort();
  const kept = Math.min(all.length, MAX_KEPT);
  const residuals = Array.from({ length: kept }, (_, i) => rounded(quantile(widened, (i + 1) / (kept + 1))));
  return {
    rows: all.length,
    run_spread: rounded(run_spread),
    rank_spread: rounded(rank_spread),
    coverage: coverageOf(calibration, checked),
    residuals,
    tail: rounded(meanExcess(residuals)),
  };
}

/** To 1e-6 of a duration: what more there is says nothing and fills files. */
const rounded = (value: number): number => Math.round(1e6 * value) / 1e6;

/** Splits residuals into a common centre, what a run and a rank add to it, and the rest. */
function effectsOf(residuals: readonly Residual[], prior: Spreads) {
  const within: number[] = [];
  const runMeans: number[] = [];
  let [rankSquares, ranks] = [0, 0];
  for (const ofRun of groupBy(residuals, ({ run }) => run).values()) {
    const medians: number[] = [];
    for (const ofRank of groupBy(ofRun, ({ rank }) => rank).values()) {
      const middle = quantile(Float64Array.from(ofRank, ({ value }) => value).sort(), 0.5);
      medians.push(middle);
      for (const { value } of ofRank) within.push(value - middle);
    }
    runMeans.push(meanOf(medians));
    rankSquares += squaresAbout(medians, meanOf(medians));
    ranks += medians.length;
  }
  const runs = runMeans.length;
  const center = meanOf(runMeans);
  return {
    center,
    within,
    // The centre of few runs is itself off by their effects.
    run_spread: spreadOf(prior.run, squaresAbout(runMeans, center), runs - 1) * Math.sqrt(1 + 1 / runs),
    rank_spread: spreadOf(prior.rank, rankSquares, ranks - runs),
  };
}

const meanOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

const squaresAbout = (values: readonly number[], mean: number): number =>
  values.reduce((sum, value) => sum + (value - mean) ** 2, 0);

/** Standard deviation measured with few degrees of freedom, drawn towards the prior. */
const spreadOf = (prior: number, squares: number, degrees: number): number =>
  Math.sqrt((PRIOR_WEIGHT * prior * prior + squares) / (PRIOR_WEIGHT + degrees));

function meanExcess(sorted: readonly number[]): number {
  const from = Math.floor(0.9 * sorted.length);
  const least = sorted[from] as number;
  return Math.max(1e-4, meanOf(sorted.slice(from).map((value) => value - least)));
}

function coverageOf(calibration: readonly Residual[], checked: readonly Residual[]): number | null {
  if (calibration.length < MIN_RESIDUALS || checked.length === 0) return null;
  const sorted = Float64Array.from(calibration, ({ value }) => value).sort();
  const [low, high] = [orderStatistic(sorted, 0.05), orderStatistic(sorted, 0.95)];
  return checked.filter(({ value }) => value >= low && value <= high).length / checked.length;
}

/** Conformal quantile: of n values the p(n+1)-th. */
export function orderStatistic(sorted: ArrayLike<number>, p: number): number {
  const at = Math.max(0, Math.min(sorted.length - 1, p * (sorted.length + 1) - 1));
  const low = Math.floor(at);
  const value = sorted[low] as number;
  return low === at ? value : value + ((sorted[low + 1] as number) - value) * (at - low);
}

/** Band of durations about a predicted log duration. */
export function bandOf({ residuals }: Calibration, predicted: number): Band {
  const at = (p: number): number => Math.exp(predicted + orderStatistic(residuals, p));
  return { q05: at(0.05), q50: at(0.5), q95: at(0.95) };
}

/**
 * Probability that a healthy step takes at least as long: conformal down to 1 / (residuals + 1), beyond the longest one
 * an exponential tail of log durations, so that p-values of many ranks can be told apart.
 */
export function upperPValue({ residuals, tail }: Calibration, residual: number): number {
  const n = residuals.length;
  const longest = residuals[n - 1] as number;
  if (residual > longest) return Math.max(LEAST_P, Math.exp((longest - residual) / tail) / (n + 1));
  let [low, high] = [0, n];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((residuals[middle] as number) < residual) low = middle + 1;
    else high = middle;
  }
  return (1 + n - low) / (n + 1);
}
