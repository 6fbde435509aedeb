/** Whether healthy steps still take what a baseline says. */
export interface Drift {
  /** Tests it rests on. */
  readonly tests: number;
  /** Share of p-values below .05 (slower than expected) and above .95 (faster); .05 each where nothing has changed. */
  readonly slow: number;
  readonly fast: number;
  /** The baseline should be trained again. */
  readonly retrain: boolean;
}

/** Fewer say nothing. */
const MIN_TESTS = 100;
/** One run may lie off all others and is expected to: only so large a share means that the baseline no longer fits. */
const MAX_SHARE = 0.3;

/** Judges the p-values of a window of healthy steps; undefined or NaN ones are left out. */
export function driftOf(pValues: readonly (number | undefined)[]): Drift {
  const known = pValues.filter((p): p is number => p !== undefined && !Number.isNaN(p));
  const share = (count: number): number => (known.length === 0 ? Number.NaN : count / known.length);
  const slow = share(known.filter((p) => p < 0.05).length);
  const fast = share(known.filter((p) => p > 0.95).length);
  return { tests: known.length, slow, fast, retrain: known.length >= MIN_TESTS && Math.max(slow, fast) > MAX_SHARE };
}
