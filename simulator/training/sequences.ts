import { activeFault, type Fault } from '../faults.js';
import { TOKENS, TRAINING } from '../measured.js';
import { Random } from '../random.js';
import type { TrainingSpec } from '../scenario.js';

export interface SequencesOptions {
  readonly seed: number;
  readonly job: string;
  readonly replicas: number;
  readonly microbatches: number;
  /** Of the whole run: what grows has doubled by then. */
  readonly steps: number;
  readonly lengths: TrainingSpec['lengths'];
  /** How much microbatches of equal length differ (deviation of the logarithm). */
  readonly contents: number;
  readonly faults: readonly Fault[];
}

/** What a step trains on: token counts of each replica's microbatches, and how much work their contents make. */
export class Sequences {
  readonly #options: SequencesOptions;
  readonly #streams: Random[];
  readonly #together: Random;
  readonly #contentStreams: Random[];
  #tokens: number[][] = [];
  #contents: number[][] = [];
  /** Whether counts differ from microbatch to microbatch. */
  varies = false;

  constructor(options: SequencesOptions) {
    const { seed, job, replicas } = options;
    const streams = (purpose: string): Random[] =>
      Array.from({ length: replicas }, (_, dp) => Random.stream(seed, job, purpose, dp));
    this.#options = options;
    this.#streams = streams('tokens');
    this.#contentStreams = streams('contents');
    this.#together = Random.stream(seed, job, 'tokens');
  }

  /** Draws the microbatches of a step. */
  draw(step: number): void {
    const { lengths, microbatches, faults, contents } = this.#options;
    const spread = activeFault(faults, 'lengths', step)?.strength ?? (lengths === 'by_replica' ? TOKENS.sigma : 0);
    const longer = activeFault(faults, 'lengths_fixed', step)?.strength ?? 0;
    const common = this.#common(step, lengths);
    this.varies = spread > 0 || lengths === 'together';
    const perMicrobatch = (draw: (microbatch: number) => number): number[] =>
      Array.from({ length: microbatches }, (_, i) => draw(i));
    this.#tokens = this.#streams.map((random, dp) => {
      const own = dp % 2 === 1 ? 1 + longer : 1;
      return perMicrobatch((i) => {
        const varied = spread > 0 ? Math.exp(spread * random.normal()) : 1;
        return whole(TRAINING.microbatchTokens * (common[i] as number) * own * varied);
      });
    });
    this.#contents = this.#contentStreams.map((random) =>
      perMicrobatch(() => (contents > 0 ? Math.exp(contents * random.normal()) : 1)),
    );
  }

  tokens(dp: number, microbatch: number): number {
    return this.#tokens[dp]?.[microbatch] as number;
  }

  /** Factor on the duration of everything done for a microbatch. */
  content(dp: number, microbatch: number): number {
    return this.#contents[dp]?.[microbatch] as number;
  }

  /** Tokens of a replica's whole step. */
  stepTokens(dp: number): number {
    return (this.#tokens[dp] ?? []).reduce((sum, n) => sum + n, 0);
  }

  /** Factor on all replicas' counts, by microbatch. */
  #common(step: number, lengths: TrainingSpec['lengths']): number[] {
    const { microbatches, steps } = this.#options;
    return Array.from({ length: microbatches }, () => {
      if (lengths === 'together') return Math.exp(TOKENS.sigma * this.#together.normal());
      return lengths === 'growing' ? 1 + step / steps : 1;
    });
  }
}

function whole(tokens: number): number {
  const bounded = Math.min(TOKENS.max, Math.max(TOKENS.min, tokens));
  return Math.floor(bounded / TOKENS.multiple) * TOKENS.multiple;
}

/** Duration of a phase over that with the usual number of tokens. */
export function tokenFactor(phase: 'forward' | 'backward', tokens: number): number {
  const fixed = phase === 'forward' ? TOKENS.forwardFixed : TOKENS.backwardFixed;
  return fixed + (1 - fixed) * (tokens / TRAINING.microbatchTokens);
}
