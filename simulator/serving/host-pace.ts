import { EAGER } from '../measured-serving.js';
import type { Random } from '../random.js';

/** How fast a host launches kernels one by one: differs between processes, and wanders from step to step. */
export class HostPace {
  readonly #random: Random;
  readonly #own: number;
  #wander: number;

  constructor(random: Random) {
    this.#random = random;
    this.#own = EAGER.hostSpread * random.normal();
    this.#wander = random.normal();
  }

  /** Factor on the nominal pace in the next step. */
  next(): number {
    this.#wander = EAGER.memory * this.#wander + Math.sqrt(1 - EAGER.memory ** 2) * this.#random.normal();
    return Math.exp(this.#own + EAGER.spread * this.#wander);
  }
}
