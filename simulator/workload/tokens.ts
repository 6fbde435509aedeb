import { TOKENS, TRAINING } from '../measured.js';
import { Random } from '../random.js';

/** Token counts of microbatches: one number, or lognormal by data parallel replica and microbatch. */
export class Tokens {
  readonly varies: boolean;
  readonly #streams: Random[];

  constructor(seed: number, job: string, replicas: number, varies: boolean) {
    this.varies = varies;
    this.#streams = Array.from({ length: replicas }, (_, dp) => Random.stream(seed, job, 'tokens', dp));
  }

  /** Counts of one step's microbatches of a replica; all its stages work on the same ones. */
  draw(dp: number, microbatches: number): number[] {
    return Array.from({ length: microbatches }, () => (this.varies ? this.#lognormal(dp) : TRAINING.microbatchTokens));
  }

  #lognormal(dp: number): number {
    const random = this.#streams[dp] as Random;
    const tokens = TRAINING.microbatchTokens * Math.exp(TOKENS.sigma * random.normal());
    const bounded = Math.min(TOKENS.max, Math.max(TOKENS.min, tokens));
    return Math.floor(bounded / TOKENS.multiple) * TOKENS.multiple;
  }
}

/** Duration of a phase over that with the usual number of tokens. */
export function tokenFactor(phase: 'forward' | 'backward', tokens: number): number {
  const fixed = phase === 'forward' ? TOKENS.forwardFixed : TOKENS.backwardFixed;
  return fixed + (1 - fixed) * (tokens / TRAINING.microbatchTokens);
}
