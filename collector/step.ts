import type { CallFacts, StepFacts } from './host-records.js';

/** What happened to the records of a step; the wire's flags. */
export interface StepFlags {
  /** Phases of the step are missing. */
  partial: boolean;
  /** Records were lost in the step or before its first one. */
  lost: boolean;
}

/** The single phases behind a sum, in the order in which they ended. */
export interface Items {
  readonly starts: number[];
  readonly durations: number[];
  readonly bytes: number[];
  readonly layers: number[];
  /** Number of the collective in its group as the engine told it, else -1. */
  readonly sequences: number[];
  /** Occurrences that each stands for. */
  readonly weights: number[];
}

const STRIDE = 5;
const [START, SUM, MAX, COUNT, BYTES] = [0, 1, 2, 3, 4];
const NEW_KEYS = 8;

const zeros = (length: number): number[] => new Array<number>(length).fill(0);

/** Phases of one step and microbatch, summed by key. Times are doubles: starts in the clock of the segment. */
export class Sums {
  /** A plain array: a step has few keys, and a typed one so small costs more to make than to fill. */
  #values: number[] = zeros(NEW_KEYS * STRIDE);
  readonly items: (Items | undefined)[] = [];

  /** Adds a phase that has ended and stands for `weight` of its kind. */
  add(key: number, start: number, duration: number, bytes: number, weight = 1): void {
    if (key * STRIDE >= this.#values.length) this.#grow(key);
    const values = this.#values;
    const at = key * STRIDE;
    if (values[at + COUNT] === 0 || start < (values[at + START] as number)) values[at + START] = start;
    values[at + SUM] = (values[at + SUM] as number) + duration * weight;
    if (duration > (values[at + MAX] as number)) values[at + MAX] = duration;
    values[at + COUNT] = (values[at + COUNT] as number) + weight;
    if (bytes > 0) values[at + BYTES] = (values[at + BYTES] as number) + bytes * weight;
  }

  /** Keeps the phase as such, beside its sum. */
  addItem(
    key: number,
    start: number,
    duration: number,
    bytes: number,
    layer: number,
    sequence: number,
    weight = 1,
  ): void {
    const items = (this.items[key] ??= {
      starts: [],
      durations: [],
      bytes: [],
      layers: [],
      sequences: [],
      weights: [],
    });
    items.weights.push(weight);
    items.starts.push(start);
    items.durations.push(duration);
    items.bytes.push(bytes);
    items.layers.push(layer);
    items.sequences.push(sequence);
  }

  /** Keys that have a sum. */
  keys(): number[] {
    const keys: number[] = [];
    for (let key = 0; key * STRIDE < this.#values.length; key++) if (this.count(key) > 0) keys.push(key);
    return keys;
  }

  count(key: number): number {
    return this.#values[key * STRIDE + COUNT] ?? 0;
  }
  start(key: number): number {
    return this.#values[key * STRIDE + START] as number;
  }
  sum(key: number): number {
    return this.#values[key * STRIDE + SUM] as number;
  }
  max(key: number): number {
    return this.#values[key * STRIDE + MAX] as number;
  }
  bytes(key: number): number {
    return this.#values[key * STRIDE + BYTES] as number;
  }

  #grow(key: number): void {
    this.#values = this.#values.concat(zeros((key + 1) * 2 * STRIDE - this.#values.length));
  }
}

/** One microbatch of a step, or (-1) all that belongs to none. */
export interface Part {
  readonly step: Step;
  readonly microbatch: number;
  readonly facts: StepFacts;
  readonly sums: Sums;
}

/** A step of one rank while its phases come in. */
export class Step {
  readonly number: number;
  /** Of a rank whose step numbers fell back within the same process: how often they had. */
  readonly rewinds: number;
  readonly parts = new Map<number, Part>();
  /** What the engine told of it, a record a microbatch. */
  readonly facts: StepFacts[] = [];
  readonly flags: StepFlags = { partial: false, lost: false };
  /** Phases other than the whole step that have begun and not ended. */
  open = 0;
  /** First begin and last end of its GPU phases other than the whole step, in the clock of the segment. */
  begin = Number.POSITIVE_INFINITY;
  end = Number.NEGATIVE_INFINITY;
  /** A phase came since its rows were last made. */
  dirty = false;

  constructor(number: number, rewinds: number) {
    this.number = number;
    this.rewinds = rewinds;
  }

  /** The part for a record of the step. */
  partOf(facts: StepFacts): Part {
    if (!this.facts.includes(facts)) this.facts.push(facts);
    return this.#part(facts, facts.microbatch);
  }

  /** The part for a call that names its own microbatch. */
  partOfCall(part: Part, call: CallFacts): Part {
    return call.microbatch < 0 || call.microbatch === part.microbatch ? part : this.#part(part.facts, call.microbatch);
  }

  #part(facts: StepFacts, microbatch: number): Part {
    let part = this.parts.get(microbatch);
    if (!part) this.parts.set(microbatch, (part = { step: this, microbatch, facts, sums: new Sums() }));
    return part;
  }
}
