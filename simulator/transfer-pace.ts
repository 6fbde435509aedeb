import { NOISE } from './measured.js';
import { Random } from './random.js';

/** By how much a job's transfers differ from those of other runs, for as long as an attempt lasts. */
export class TransferPace {
  readonly #seed: number;
  readonly #job: string;
  #run = '1';
  /** By communicator: factors by logarithm of the message size. */
  readonly #factors = new Map<string, number[]>();

  constructor(seed: number, job: string) {
    this.#seed = seed;
    this.#job = job;
  }

  startRun(run: string): void {
    this.#run = run;
    this.#factors.clear();
  }

  /** Of messages of so many bytes; sizes within half of a power of two go the same way. */
  factor(group: string, bytes: number): number {
    let factors = this.#factors.get(group);
    if (!factors) this.#factors.set(group, (factors = []));
    const size = Math.round(Math.log2(Math.max(1, bytes)));
    return (factors[size] ??= Math.exp(NOISE.transferRun * this.#stream(group, size).normal()));
  }

  #stream(group: string, size: number): Random {
    return Random.stream(this.#seed, this.#job, 'transfer pace', this.#run, group, size);
  }
}
