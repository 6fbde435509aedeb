import type { RequestStatistics } from '../measured-requests.js';
import { ENGINE } from '../measured-serving.js';
import type { Random } from '../random.js';
import type { Request, RequestStream } from './request.js';

/** Poisson arrivals of lognormal lengths; some requests continue an earlier one and share the beginning of its prompt. */
export class SyntheticRequests implements RequestStream {
  readonly #random: Random;
  readonly #statistics: RequestStatistics;
  readonly #meanGapNs: number;
  readonly #name: string;
  /** Prefixes of recent requests, to be continued. */
  readonly #recent: (readonly number[])[] = [];
  #count = 0;
  #hashes = 0;
  #atNs = 0;

  /** `name`: what request ids begin with. */
  constructor(random: Random, statistics: RequestStatistics, meanGapNs: number, name = 'req') {
    this.#name = name;
    this.#random = random;
    this.#statistics = statistics;
    this.#meanGapNs = meanGapNs;
  }

  next(): Request {
    const { promptLog, promptSpread, promptMin, promptMax, outputLog, outputSpread, outputMin, outputMax } =
      this.#statistics;
    this.#atNs -= this.#meanGapNs * Math.log(1 - this.#random.uniform());
    const promptTokens = this.#lognormal(promptLog, promptSpread, promptMin, promptMax);
    const outputTokens = this.#lognormal(outputLog, outputSpread, outputMin, outputMax);
    const prefix = this.#prefix(Math.floor(promptTokens / ENGINE.chunkOfPrefix));
    return { id: `${this.#name}-${this.#count++}`, arrivalNs: this.#atNs, promptTokens, outputTokens, prefix };
  }

  #lognormal(log: number, spread: number, min: number, max: number): number {
    return Math.round(Math.min(max, Math.max(min, Math.exp(log + spread * this.#random.normal()))));
  }

  #prefix(blocks: number): number[] {
    const { continues, continuedShare } = this.#statistics;
    if (continues === 0) return [];
    const goesOn = this.#random.uniform() < continues;
    const shared = goesOn ? this.#earlier(Math.round(blocks * continuedShare)) : [];
    const prefix = [...shared];
    while (prefix.length < blocks) prefix.push(this.#hashes++);
    if (this.#recent.length === RECENT) this.#recent.shift();
    this.#recent.push(prefix);
    return prefix;
  }

  /** So many blocks of a recent prompt, or all of the one that is nearest to that. */
  #earlier(blocks: number): readonly number[] {
    let nearest: readonly number[] = [];
    for (const prefix of this.#recent)
      if (Math.abs(prefix.length - blocks) < Math.abs(nearest.length - blocks)) nearest = prefix;
    return nearest.slice(0, blocks);
  }
}

/** Conversations that are going on at a time; our choice. */
const RECENT = 64;
