import { type Drained, LAYOUT } from '../native/ts/index.js';
import type { DropCounts } from './drops.js';
import type { CallFacts, HostRecord, StepFacts } from './host-records.js';
import { NestingStack } from './nesting-stack.js';
import type { PhaseKey, PhaseTable } from './phase-table.js';
import type { SegmentClock } from './segment-clock.js';

/** Records that fences may still name: the host is ahead of its GPU by less. Those that no fence ever names go again. */
const KEPT_RECORDS = 32_768;
/** Phases that wait for the next step; more come only where the engine tells none. */
const MAX_WAITING = 1024;
const NUMBER_MASK = 0xffff;

/** A phase that ends so short before the next step, as a share of the step, is there for that one. */
const JUST_BEFORE = 0.1;

/** A host phase that has ended. Times are those of `SegmentClock.hostTime`. */
interface HostPhase {
  readonly key: number;
  readonly microbatch: number;
  readonly start: number;
  readonly duration: number;
  readonly bytes: number;
}

/** A host phase that lasts. The start is that of `SegmentClock.hostTime`. */
export interface OpenHostPhase {
  readonly key: PhaseKey;
  readonly start: number;
  readonly facts: StepFacts | undefined;
}

/** Is told of every host phase that has ended. */
export type HostPhaseObserver = (key: number, thread: number, start: number, duration: number) => void;

/** What the host records of a segment say: steps, calls, and phases of host threads, which are summed onto steps. */
export class HostRing {
  readonly #table: PhaseTable;
  readonly #clock: SegmentClock;
  readonly #drops: DropCounts;
  readonly #observe: HostPhaseObserver;
  readonly #records = new Map<number, StepFacts | CallFacts>();
  readonly #threads = new Map<number, NestingStack<StepFacts | undefined>>();
  #newest: StepFacts | undefined;
  #newestTime = Number.NEGATIVE_INFINITY;
  /** Phases that ended since, in that order. */
  #waiting: HostPhase[] = [];

  constructor(table: PhaseTable, clock: SegmentClock, drops: DropCounts, observe: HostPhaseObserver) {
    this.#table = table;
    this.#clock = clock;
    this.#drops = drops;
    this.#observe = observe;
  }

  /** Takes in drained records. */
  take(record: HostRecord, { first, count, lost }: Drained): void {
    if (lost > 0) this.#forgetOpen();
    for (let i = 0; i < count; i++) this.#takeOne(record.select(i), first + i);
  }

  /** The record that a LINK fence names, once. */
  takeLinked(number: number): StepFacts | CallFacts | undefined {
    const record = this.#records.get(number);
    this.#records.delete(number);
    return record;
  }

  *open(): Generator<OpenHostPhase> {
    for (const stack of this.#threads.values())
      for (let at = 0; at < stack.depth; at++) {
        const key = this.#table.keys[this.#table.keyOf[stack.phases[at] as number] as number] as PhaseKey;
        yield { key, start: stack.starts[at] as number, facts: stack.owners[at] };
      }
  }

  /** No next step comes for now: what waits for it counts to the last one. */
  settle(): void {
    for (const phase of this.#waiting.splice(0)) this.#count(phase, this.#newest);
  }

  /** The writer has gone: what is open never ends. */
  finish(): void {
    this.#forgetOpen();
    this.settle();
  }

  #takeOne(record: HostRecord, number: number): void {
    switch (record.type) {
      case LAYOUT.host.step: {
        const facts = record.step();
        this.#keep(number, facts);
        this.#begin(facts, this.#clock.hostTime(record.timeNs));
        break;
      }
      case LAYOUT.host.call:
        this.#keep(number, record.call());
        break;
      case LAYOUT.host.request: {
        const facts = this.#records.get(record.requestStep);
        if (facts?.type !== 'step') break;
        facts.requests.push(record.requestText);
        facts.requestCut ||= record.requestCut;
        break;
      }
      case LAYOUT.host.begin:
        this.#beginPhase(record);
        break;
      case LAYOUT.host.end:
        this.#endPhase(record);
        break;
    }
  }

  /**
   * A step begins. Of the phases that ended since the last one, those that lead up to it without a break are there for
   * it (the next batch, a checkpoint before it); the others are part of the last step.
   */
  #begin(facts: StepFacts, time: number): void {
    const reach = JUST_BEFORE * (time - this.#newestTime);
    let reached = time;
    for (const phase of this.#waiting.splice(0).reverse()) {
      const leadsUp = phase.microbatch < 0 && reached - (phase.start + phase.duration) <= reach;
      reached = leadsUp ? Math.min(reached, phase.start) : Number.POSITIVE_INFINITY;
      this.#count(phase, leadsUp ? facts : this.#newest);
    }
    this.#newest = facts;
    this.#newestTime = time;
  }

  #keep(number: number, facts: StepFacts | CallFacts): void {
    // Deleted first, so that the map's order stays that of the numbers.
    this.#records.delete(number & NUMBER_MASK);
    this.#records.set(number & NUMBER_MASK, facts);
    if (this.#records.size > KEPT_RECORDS) this.#records.delete(this.#records.keys().next().value as number);
  }

  #beginPhase(record: HostRecord): void {
    if (!this.#table.knows(record.phase)) return;
    let stack = this.#threads.get(record.thread);
    if (!stack) this.#threads.set(record.thread, (stack = new NestingStack()));
    if (stack.full) this.#drops.unclosed += stack.remove(() => true);
    stack.push(record.phase, this.#clock.hostTime(record.timeNs), this.#newest, record.call());
  }

  #endPhase(record: HostRecord): void {
    if (!this.#table.knows(record.phase)) {
      this.#drops.unknown_phase++;
      return;
    }
    const stack = this.#threads.get(record.thread);
    const at = stack?.find(record.phase) ?? -1;
    if (!stack || at < 0) {
      this.#drops.unopened++;
      return;
    }
    this.#drops.unclosed += stack.depth - 1 - at;
    stack.depth = at;
    if (at === 0) this.#threads.delete(record.thread);
    const key = this.#table.keyOf[record.phase] as number;
    const start = stack.starts[at] as number;
    const duration = this.#clock.hostTime(record.timeNs) - start;
    const { microbatch = -1, bytes = -1 } = stack.calls[at] ?? {};
    this.#observe(key, record.thread, start, duration);
    if (this.#waiting.push({ key, microbatch, start, duration, bytes }) > MAX_WAITING)
      this.#count(this.#waiting.shift() as HostPhase, this.#newest);
  }

  #count({ key, microbatch, start, duration, bytes }: HostPhase, facts: StepFacts | undefined): void {
    if (!facts || facts.closed) {
      this.#drops[facts ? 'late' : 'no_step']++;
      return;
    }
    let sum = facts.host.find((one) => one.key === key && one.microbatch === microbatch);
    if (!sum) facts.host.push((sum = { key, microbatch, start, duration: 0, max: 0, count: 0, bytes: 0 }));
    sum.start = Math.min(sum.start, start);
    sum.duration += duration;
    sum.max = Math.max(sum.max, duration);
    sum.count++;
    facts.hostDirty = true;
    sum.bytes += Math.max(0, bytes);
  }

  /** After a loss nothing is known of the phases that were open. */
  #forgetOpen(): void {
    for (const stack of this.#threads.values()) this.#drops.unclosed += stack.remove(() => true);
    this.#threads.clear();
  }
}
