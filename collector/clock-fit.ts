/**
 * A line from one clock to another through recent samples of both, for clocks that run nearly alike: y = x + offset +
 * drift * (x - newest x). Samples are weighted by their stated uncertainty; those that disagree with the others are left
 * out; when the newest all disagree, the clock has jumped and the line is begun anew from them. All in nanoseconds as
 * doubles, counted from bases of the caller. Pure.
 */
export class ClockFit {
  readonly #samples: Sample[] = [];
  #line: Line | undefined;
  /** Times the line was begun anew. */
  jumps = 0;

  get samples(): number {
    return this.#samples.length;
  }

  /** Takes in a sample: at x of the one clock the other one showed y, within plus or minus `uncertainty`. */
  add(x: number, y: number, uncertainty: number): void {
    if (this.#samples.length === WINDOW) this.#samples.shift();
    this.#samples.push({ x, r: y - x, sd: Math.max(uncertainty, RESOLUTION_NS) });
    this.#line = undefined;
  }

  /** y at x. Call only once there is a sample. */
  at(x: number): number {
    const { ref, offset, drift } = this.#fitted();
    return x + offset + drift * (x - ref);
  }

  /** How far `at(x)` may be off; infinite without a sample. */
  uncertainty(x: number): number {
    if (this.#samples.length === 0) return Number.POSITIVE_INFINITY;
    const { ref, spread, best, variance: v, covariance, driftVariance } = this.#fitted();
    const dx = x - ref;
    return best + spread * Math.sqrt(Math.max(0, v + 2 * dx * covariance + dx * dx * driftVariance));
  }

  /** Relative rate of the second clock against the first, less one. */
  get drift(): number {
    return this.#samples.length === 0 ? 0 : this.#fitted().drift;
  }

  #fitted(): Line {
    if (this.#line) return this.#line;
    let kept = agreeing(this.#samples);
    const newest = this.#samples.slice(-JUMP_SAMPLES);
    if (newest.length === JUMP_SAMPLES && newest.every((sample) => !kept.includes(sample))) {
      this.jumps++;
      this.#samples.splice(0, this.#samples.length - JUMP_SAMPLES);
      kept = agreeing(this.#samples);
    }
    return (this.#line = leastSquares(kept));
  }
}

/** `r` is y - x: what is left is small, so that doubles keep its digits. */
interface Sample {
  readonly x: number;
  readonly r: number;
  readonly sd: number;
}

interface Line {
  readonly ref: number;
  readonly offset: number;
  readonly drift: number;
  readonly variance: number;
  readonly covariance: number;
  readonly driftVariance: number;
  /** How much more the samples scatter than they state, at least 1. */
  readonly spread: number;
  /** Least stated uncertainty: the error of a bracket is systematic, so more of them do not make it smaller. */
  readonly best: number;
}

/** A minute at a sample a second: longer than noise, shorter than the clocks' warming up. */
const WINDOW = 64;
const JUMP_SAMPLES = 4;
/** The GPU's timer steps by 32 ns. */
const RESOLUTION_NS = 32;
/** Clocks of computers differ by less: holds the line where one or two samples leave the drift open. */
const DRIFT_SD = 50e-6;
const OUTLIER_SD = 4;

/** Without the samples that lie far from the line through most of them (Theil-Sen: a quarter may be wrong). */
function agreeing(samples: readonly Sample[]): readonly Sample[] {
  if (samples.length < 3) return samples;
  const slopes: number[] = [];
  for (let i = 0; i < samples.length; i++)
    for (let k = i + 1; k < samples.length; k++) {
      const [a, b] = [samples[i] as Sample, samples[k] as Sample];
      if (b.x !== a.x) slopes.push((b.r - a.r) / (b.x - a.x));
    }
  const drift = median(slopes);
  const ref = (samples[samples.length - 1] as Sample).x;
  const offset = median(samples.map(({ x, r }) => r - drift * (x - ref)));
  const distances = samples.map(({ x, r }) => Math.abs(r - offset - drift * (x - ref)));
  const scatter = 1.4826 * median([...distances]);
  return samples.filter(({ sd }, i) => (distances[i] as number) <= OUTLIER_SD * Math.max(sd, scatter));
}

function leastSquares(samples: readonly Sample[]): Line {
  const ref = (samples[samples.length - 1] as Sample).x;
  let [w, wx, wxx, wr, wxr] = [0, 0, DRIFT_SD ** -2, 0, 0];
  for (const { x, r, sd } of samples) {
    const weight = sd ** -2;
    const dx = x - ref;
    w += weight;
    wx += weight * dx;
    wxx += weight * dx * dx;
    wr += weight * r;
    wxr += weight * dx * r;
  }
  const determinant = w * wxx - wx * wx;
  const offset = (wxx * wr - wx * wxr) / determinant;
  const drift = (w * wxr - wx * wr) / determinant;
  let chi = 0;
  for (const { x, r, sd } of samples) chi += ((r - offset - drift * (x - ref)) / sd) ** 2;
  return {
    ref,
    offset,
    drift,
    variance: wxx / determinant,
    covariance: -wx / determinant,
    driftVariance: w / determinant,
    spread: Math.max(1, Math.sqrt(chi / Math.max(1, samples.length - 2))),
    best: Math.min(...samples.map(({ sd }) => sd)),
  };
}

function median(values: number[]): number {
  if (values.length === 0) return 0;
  values.sort((a, b) => a - b);
  return values[values.length >> 1] as number;
}
