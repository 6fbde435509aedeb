import { octaveMs, type RetryPolicy } from './retry.js';

/** Failures in a row after which a receiver is left alone for a while. */
const OPENS_AFTER = 5;
/** A receiver that is well again is told of what waits within twice this time. */
const LONGEST_MS = 150_000;

/**
 * Keeps a receiver that fails from being asked for every message: after some failures in a row it is asked once, after a time
 * that doubles, until it answers. What waits meanwhile uses up no attempts.
 */
export class CircuitBreaker {
  #failures = 0;
  #untilMs = 0;
  readonly #policy: RetryPolicy;
  readonly #random: () => number;

  constructor(retry: RetryPolicy, random: () => number) {
    this.#policy = { baseMs: retry.baseMs, maxMs: Math.min(retry.maxMs, LONGEST_MS) };
    this.#random = random;
  }

  /** Epoch milliseconds before which nothing is to be sent. */
  get untilMs(): number {
    return this.#untilMs;
  }

  get open(): boolean {
    return this.#failures >= OPENS_AFTER;
  }

  succeeded(): void {
    this.#failures = 0;
  }

  failed(nowMs: number): void {
    this.#failures++;
    if (this.open) this.pause(nowMs + octaveMs(this.#failures - OPENS_AFTER + 1, this.#policy, this.#random()));
  }

  /** For a receiver that asked to be left alone until a time. */
  pause(untilMs: number): void {
    this.#untilMs = Math.max(this.#untilMs, untilMs);
  }
}
