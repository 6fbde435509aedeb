import { newRing, pushRing, type Ring, ringValues } from './ring.js';
import { quantile } from './statistics.js';

/** How much of a step ranks seem to lose when nothing is wrong, measured on the job itself. Plain data. */
export interface Noise {
  ring: Ring;
  /** One standard deviation's worth, as a share of the step. */
  scale: number;
  /** Share of healthy rank-steps that look slow all the same. */
  hitRate: number;
  /** Steps observed, and ring count at the last renewal. */
  steps: number;
  renewedAt: number;
  /** Products of neighbouring values, for the autocorrelation; and each slot's last value. */
  squares: number;
  products: number;
  last: Map<number, number>;
}

const CAPACITY = 1024;
/** Ranks with equal shapes differ by 1.3 % of the work at the 99th percentile in public NDTimeline traces of training. */
const FLOOR = 0.01;
/**
 * Until the job's own noise is known: in the first seconds under load the GPUs of h200-train throttle one after the
 * other, and differ by 9 % for five steps.
 */
const PRIOR = 0.04;
const KNOWN_AT_STEPS = 64;
/** A percentile of fewer says nothing: a rank that is slow from the start would be taken for noise at once. */
const LEAST_SAMPLES = 16;
const LEAST_HIT_RATE = 0.005;
const SLOW = 3;
/** The autocorrelation forgets with this factor a sample. */
const MEMORY = 0.995;
/** Slots observed a step, so that one step of a large job does not fill the ring. */
export const NOISE_SLOTS = 8;

export const newNoise = (): Noise => ({
  ring: newRing(CAPACITY),
  scale: PRIOR,
  hitRate: LEAST_HIT_RATE,
  steps: 0,
  renewedAt: 0,
  squares: 0,
  products: 0,
  last: new Map(),
});

/** Takes in a healthy rank-step's lost share; negative ones are ranks that waited. */
export function observeNoise(noise: Noise, slot: number, share: number): void {
  pushRing(noise.ring, Math.max(0, share));
  const last = noise.last.get(slot);
  noise.last.set(slot, share);
  if (last === undefined) return;
  noise.squares = MEMORY * noise.squares + (last * last + share * share) / 2;
  noise.products = MEMORY * noise.products + last * share;
}

/**
 * Renews the scale from the 84th and 90th percentiles: spikes rarer than one in ten count in `hitRate` instead. Where
 * neighbouring steps are alike (power, clocks), sums of them vary more: the scale grows by sqrt((1 + r) / (1 - r)), the
 * factor for the mean of an AR(1) series.
 */
export function renewNoise(noise: Noise): void {
  noise.steps++;
  const { count } = noise.ring;
  if (count < LEAST_SAMPLES || count - noise.renewedAt < Math.min(64, Math.max(1, noise.renewedAt / 4))) return;
  noise.renewedAt = count;
  const sorted = Float64Array.from(ringValues(noise.ring)).sort();
  const correlation = Math.min(0.8, Math.max(0, noise.products / (noise.squares || 1)));
  const spread = Math.max(quantile(sorted, 0.84), quantile(sorted, 0.9) / 1.28);
  const floor = noise.steps < KNOWN_AT_STEPS ? PRIOR : FLOOR;
  noise.scale = Math.max(floor, spread * Math.sqrt((1 + correlation) / (1 - correlation)));
  const slow = sorted.filter((share) => share > SLOW * noise.scale).length;
  noise.hitRate = Math.max(LEAST_HIT_RATE, slow / sorted.length);
}
