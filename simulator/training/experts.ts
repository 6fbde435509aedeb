import { activeFault, type Fault } from '../faults.js';
import { EXPERTS } from '../measured.js';
import { Random } from '../random.js';

/** How the router of a mixture-of-experts layer spreads tokens over the ranks of an expert parallel group. */
export class ExpertRouting {
  readonly #faults: readonly Fault[];
  readonly #random: Random;

  constructor(seed: number, job: string, faults: readonly Fault[]) {
    this.#faults = faults;
    this.#random = Random.stream(seed, job, 'experts');
  }

  /** Each rank's tokens over the even share; the mean is 1, since every token goes somewhere. */
  shares(ranks: readonly number[], step: number): number[] {
    const fault = activeFault(this.#faults, 'experts', step);
    const weights = ranks.map((rank) => {
      const noise = Math.exp(EXPERTS.spread * this.#random.normal());
      return noise * (fault ? weight(fault, rank, ranks) : 1);
    });
    const mean = weights.reduce((sum, value) => sum + value, 0) / weights.length;
    return weights.map((value) => value / mean);
  }
}

function weight({ ranks: hot, strength }: Fault, rank: number, ranks: readonly number[]): number {
  if (hot.has(rank)) return 1 + strength;
  const hots = ranks.filter((other) => hot.has(other)).length;
  return 1 - (strength * hots) / (ranks.length - hots);
}
