/**
 * Bayesian online change point detection (Adams and MacKay) of a normal mean and variance, with a conjugate prior that
 * is learnt from the first values. Returns, value by value, the probability that the run has begun anew within the
 * last `recent` values.
 */
export function changeProbabilities(values: readonly number[], hazard: number, recent: number): number[] {
  const scale = values[0] ?? 1;
  const prior = { mean: 1, kappa: 1, alpha: 1, beta: 0.0004 };
  // Run lengths 0, 1, ..., oldest last, each with its posterior.
  let runs = [{ ...prior, probability: 1 }];
  return values.map((value) => {
    const x = value / scale;
    const weighted = runs.map((run) => ({ run, joint: run.probability * studentDensity(x, run) }));
    const total = weighted.reduce((sum, { joint }) => sum + joint, 0) || Number.MIN_VALUE;
    const grown = weighted.map(({ run, joint }) => ({
      ...updated(run, x),
      probability: ((1 - hazard) * joint) / total,
    }));
    runs = [{ ...prior, mean: x, probability: hazard }, ...grown].slice(0, MAX_RUN);
    const mass = runs.reduce((sum, { probability }) => sum + probability, 0);
    for (const run of runs) run.probability /= mass;
    return runs.slice(0, recent + 1).reduce((sum, { probability }) => sum + probability, 0);
  });
}

const MAX_RUN = 300;

interface Posterior {
  mean: number;
  kappa: number;
  alpha: number;
  beta: number;
}

function updated<P extends Posterior>(p: P, x: number): P {
  return {
    ...p,
    mean: (p.kappa * p.mean + x) / (p.kappa + 1),
    kappa: p.kappa + 1,
    alpha: p.alpha + 0.5,
    beta: p.beta + (p.kappa * (x - p.mean) ** 2) / (2 * (p.kappa + 1)),
  };
}

/** Density of the posterior's prediction, but for a constant that depends on alpha only slightly: Stirling's form. */
function studentDensity(x: number, { mean, kappa, alpha, beta }: Posterior): number {
  const freedom = 2 * alpha;
  const variance = (beta * (kappa + 1)) / (alpha * kappa);
  const t = (x - mean) ** 2 / variance;
  const norm = gammaRatio(alpha) / Math.sqrt(freedom * Math.PI * variance);
  return norm * (1 + t / freedom) ** (-(freedom + 1) / 2);
}

/** Gamma(a + 1/2) / Gamma(a), to a millionth for a >= 1. */
const gammaRatio = (a: number): number => Math.sqrt(a) * (1 - 1 / (8 * a) + 1 / (128 * a * a) + 5 / (1024 * a ** 3));
