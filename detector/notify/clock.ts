/** Time as notifications need it; a test turns it by hand. */
export interface Clock {
  /** Epoch milliseconds. */
  now(): number;
  /** Calls back once after `ms`, at once when that is not positive; returns what cancels it. */
  after(ms: number, callback: () => void): () => void;
}

/** setTimeout takes more as 1. */
const TIMER_MS_MAX = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: Date.now,
  after(ms, callback) {
    const timer = setTimeout(callback, Math.min(ms, TIMER_MS_MAX));
    return () => clearTimeout(timer);
  },
};
