import { LAYOUT } from '../native/ts/index.js';
import { ClockFit } from './clock-fit.js';

const WORDS = LAYOUT.clock.size / 8;
const GPU = LAYOUT.clock.gpuNs / 8;
const MONOTONIC = LAYOUT.clock.monotonicNs / 8;
const REALTIME = LAYOUT.clock.realtimeNs / 8;
const UNCERTAINTY = LAYOUT.clock.uncertaintyNs / 8;

const TWO_32 = 4294967296;
/** What a guess by the time of arrival may be off. */
const GUESS_NS = 1e9;

/**
 * The clocks of one segment on the epoch. Fence times go through a fitted line to CLOCK_MONOTONIC, and from there by the
 * newest samples to CLOCK_REALTIME: neither of the first two ever steps, and a step of the last is followed within two.
 * All times are doubles of nanoseconds: fence times and monotonic ones from bases of this segment, epoch times from
 * `epochBase`, which is the same for all segments.
 */
export class SegmentClock {
  readonly #gpu: boolean;
  readonly #epochBase: bigint;
  readonly #fit = new ClockFit();
  readonly #monotonicBase: bigint;
  #fenceBase: bigint | undefined;
  /** Words of the fence base. */
  baseHigh = 0;
  baseLow = 0;
  /** Epoch time of the monotonic base, as the newest samples have it. */
  readonly #realtimeOffsets: number[] = [];
  #realtimeOffset: number;

  constructor(clockSource: number, created: { monotonicNs: bigint; realtimeNs: bigint }, epochBase: bigint) {
    this.#gpu = clockSource === LAYOUT.clock.gpu;
    this.#epochBase = epochBase;
    this.#monotonicBase = created.monotonicNs;
    this.#realtimeOffset = Number(created.realtimeNs - epochBase);
    if (!this.#gpu) this.#setBase(created.monotonicNs);
  }

  /** `gpu`, or `host`: durations of the two do not compare. */
  get source(): 'gpu' | 'host' {
    return this.#gpu ? 'gpu' : 'host';
  }

  /** Takes in `count` samples as `drainClocks` copies them. */
  addSamples(words: BigUint64Array, count: number): void {
    for (let at = 0; at < count * WORDS; at += WORDS) {
      const monotonic = words[at + MONOTONIC] as bigint;
      const epoch = (words[at + REALTIME] as bigint) - this.#epochBase;
      this.#setRealtime(Number(epoch - (monotonic - this.#monotonicBase)));
      if (!this.#gpu) continue;
      const gpu = words[at + GPU] as bigint;
      if (this.#fenceBase === undefined) this.#setBase(gpu);
      const x = Number(gpu - (this.#fenceBase as bigint));
      this.#fit.add(x, Number(monotonic - this.#monotonicBase), Number(words[at + UNCERTAINTY]));
    }
  }

  /**
   * Makes fence times usable where the engine has given no sample yet: the newest of them is taken for now.
   * @param newest a fence time as it stands in the ring
   * @param now epoch time
   */
  guess(newest: bigint, now: number): void {
    if (!this.#gpu) return;
    if (this.#fenceBase === undefined) this.#setBase(newest);
    if (this.#fit.samples > 0) return;
    this.#fit.add(Number(newest - (this.#fenceBase as bigint)), now - this.#realtimeOffset, GUESS_NS);
  }

  /** Epoch time of a fence time. */
  epochOfFence(x: number): number {
    return (this.#gpu ? this.#fit.at(x) : x) + this.#realtimeOffset;
  }

  /** A host time as it stands in a record, counted from the monotonic base. */
  hostTime(monotonicNs: bigint): number {
    return Number(monotonicNs - this.#monotonicBase);
  }

  /** Epoch time of what `hostTime` gives. */
  epochOfHost(time: number): number {
    return time + this.#realtimeOffset;
  }

  /** How far `epochOfFence(x)` may be off the host's own epoch clock. */
  uncertainty(x: number): number {
    return this.#gpu ? this.#fit.uncertainty(x) : 0;
  }

  /** The median of three: an engine that is interrupted while it reads the two clocks is not believed. */
  #setRealtime(offset: number): void {
    this.#realtimeOffsets.push(offset);
    if (this.#realtimeOffsets.length > 3) this.#realtimeOffsets.shift();
    const [, middle = offset] = this.#realtimeOffsets.toSorted((a, b) => a - b);
    this.#realtimeOffset = this.#realtimeOffsets.length === 3 ? middle : offset;
  }

  #setBase(base: bigint): void {
    this.#fenceBase = base;
    this.baseHigh = Number(base >> 32n);
    this.baseLow = Number(base & 0xffffffffn);
  }
}

/** A fence time, two 32-bit words of it, counted from a clock's base. */
export const sinceBase = (high: number, low: number, clock: SegmentClock): number =>
  (high - clock.baseHigh) * TWO_32 + (low - clock.baseLow);
