import type { Request } from '../requests/request.js';
import type { Holding, KvCache } from './kv-cache.js';

export interface SchedulerOptions {
  /** Tokens a step may hold; a prompt is cut where it holds fewer. Infinite: prompts are never cut. */
  readonly maxTokens: number;
  readonly maxRunning: number;
  /** Admits only what fits with all its output, so that nothing is preempted. */
  readonly reserves: boolean;
}

/** What a step computes. */
export interface Batch {
  prefillTokens: number;
  decodeTokens: number;
  /** KV entries that its decodes read. */
  decodeContext: number;
  /** Pairs of tokens that its prefills attend over. */
  prefillPairs: number;
  /** KV entries of all its sequences after it. */
  contextTokens: number;
  /** Sequences in it. */
  sequences: number;
  /** The one with most tokens to prefill. */
  request: string;
  /** Sequences that lost their KV cache in it. */
  preempted: number;
  /** Prompt tokens found in the prefix cache. */
  cachedTokens: number;
  /** Of the tokens computed, those that had been computed before. */
  recomputedTokens: number;
}

interface Sequence {
  readonly request: Request;
  readonly holding: Holding;
  outputs: number;
  /** Tokens whose KV entries are there. */
  computed: number;
  /** The most there ever were. */
  best: number;
}

/** Continuous batching as vLLM does it: decodes and running prefills first, then new requests, first come, first served. */
export class Scheduler {
  readonly #options: SchedulerOptions;
  readonly #kv: KvCache;
  readonly #waiting: Sequence[] = [];
  readonly #running: Sequence[] = [];

  constructor(options: SchedulerOptions, kv: KvCache) {
    this.#options = options;
    this.#kv = kv;
  }

  get running(): number {
    return this.#running.length;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  get usage(): number {
    return this.#kv.usage;
  }

  /** A prompt longer than half the cache is cut to that: it could never be served. */
  add(request: Request): void {
    const most = Math.floor(this.#kv.tokens / 2);
    const promptTokens = Math.min(request.promptTokens, most);
    const outputTokens = Math.min(request.outputTokens, most - 1);
    this.#waiting.push({
      request: { ...request, promptTokens, outputTokens },
      holding: { shared: [], blocks: 0 },
      ...{ outputs: 0, computed: 0, best: 0 },
    });
  }

  /** Composes and computes the next step; undefined where there is nothing to do. `reserves`: see SchedulerOptions. */
  step(reserves: boolean = this.#options.reserves): Batch | undefined {
    const batch = emptyBatch();
    let budget = this.#options.maxTokens;
    let largest = 0;
    const take = (sequence: Sequence, tokens: number): void => {
      budget -= tokens;
      if (compute(sequence, tokens, batch) && tokens > largest) {
        largest = tokens;
        batch.request = sequence.request.id;
      }
    };
    for (let i = 0; i < this.#running.length && budget > 0; i++) {
      const sequence = this.#running[i] as Sequence;
      const tokens = Math.min(missing(sequence), budget);
      // It may be the last one itself.
      while (i < this.#running.length && !this.#kv.grow(sequence.holding, sequence.computed + tokens))
        this.#preempt(batch);
      if (i < this.#running.length) take(sequence, tokens);
    }
    if (batch.preempted === 0) this.#admit(batch, reserves, () => budget, take);
    this.#finish();
    return batch.sequences > 0 ? batch : undefined;
  }

  #admit(
    batch: Batch,
    reserves: boolean,
    budget: () => number,
    take: (sequence: Sequence, tokens: number) => void,
  ): void {
    while (this.#waiting.length > 0 && this.#running.length < this.#options.maxRunning && budget() > 0) {
      const sequence = this.#waiting[0] as Sequence;
      if (reserves && !this.#fitsWhole(sequence)) return;
      const { holding, request } = sequence;
      const cached = this.#kv.share(holding, request.prefix, request.promptTokens - 1);
      const tokens = Math.min(missing(sequence) - cached, budget());
      if (!this.#kv.grow(holding, cached + tokens)) {
        this.#kv.release(holding);
        return;
      }
      this.#waiting.shift();
      this.#running.push(sequence);
      sequence.computed = cached;
      batch.cachedTokens += cached;
      take(sequence, tokens);
    }
  }

  /** The request that came last loses its place. */
  #preempt(batch: Batch): void {
    const victim = this.#running.pop() as Sequence;
    this.#kv.release(victim.holding);
    victim.computed = 0;
    this.#waiting.unshift(victim);
    batch.preempted++;
  }

  #fitsWhole({ request }: Sequence): boolean {
    const wanted = (one: Request): number => one.promptTokens + one.outputTokens + BLOCK_ROUNDING;
    const promised = this.#running.reduce((sum, running) => sum + wanted(running.request), 0);
    return promised + wanted(request) <= this.#kv.tokens;
  }

  #finish(): void {
    for (let i = this.#running.length - 1; i >= 0; i--) {
      const { request, holding, outputs, computed } = this.#running[i] as Sequence;
      this.#kv.publish(holding, request.prefix, Math.min(computed, request.promptTokens));
      if (outputs < request.outputTokens) continue;
      this.#kv.release(holding);
      this.#running.splice(i, 1);
    }
  }
}

/** Tokens that a sequence's blocks may hold beyond its own. */
const BLOCK_ROUNDING = 16;

/** Tokens to compute until the next one can be put out: 1 while decoding. */
const missing = ({ request, outputs, computed }: Sequence): number => request.promptTokens + outputs - computed;

const emptyBatch = (): Batch => ({
  prefillTokens: 0,
  decodeTokens: 0,
  decodeContext: 0,
  prefillPairs: 0,
  contextTokens: 0,
  sequences: 0,
  request: '',
  preempted: 0,
  cachedTokens: 0,
  recomputedTokens: 0,
});

/** Adds tokens of a sequence to a batch; true where they are a prefill. */
function compute(sequence: Sequence, tokens: number, batch: Batch): boolean {
  const { computed, best, outputs } = sequence;
  const decodes = outputs > 0 && missing(sequence) === 1;
  batch.sequences++;
  if (decodes) {
    batch.decodeTokens++;
    batch.decodeContext += computed;
  } else {
    batch.prefillTokens += tokens;
    batch.prefillPairs += tokens * (computed + tokens / 2);
  }
  batch.recomputedTokens += Math.max(0, Math.min(computed + tokens, best) - computed);
  sequence.computed += tokens;
  batch.contextTokens += sequence.computed;
  sequence.best = Math.max(best, sequence.computed);
  if (missing(sequence) === 0) sequence.outputs++;
  return !decodes;
}
