/** A time in which nobody is told of the incidents that it fits. */
export interface Silence {
  readonly id: string;
  /** Globs by name of label, as an operator wrote them. */
  readonly match: Readonly<Record<string, string | readonly string[]>>;
  /** Epoch milliseconds. */
  readonly startsMs: number;
  readonly endsMs: number;
  readonly author: string;
  readonly reason: string;
  readonly createdMs: number;
}

/** Every method may throw `store_unavailable`. */
export interface SilenceStore {
  add(silence: Silence): void;
  get(id: string): Silence | undefined;
  /** Those that end after a time, the newest first. */
  endingAfter(ms: number): Silence[];
  /** All that are kept, the newest first. */
  list(limit: number): Silence[];
  /** Lets it end now, unless it is over; false: there is none. */
  expire(id: string, nowMs: number): boolean;
}
