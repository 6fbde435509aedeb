import { type Drained, LAYOUT } from '../native/ts/index.js';
import { KIND } from '../protocol/vocabulary.js';
import type { DropCounts } from './drops.js';
import type { CallFacts, StepFacts } from './host-records.js';
import { NestingStack } from './nesting-stack.js';
import type { PhaseTable } from './phase-table.js';
import { type SegmentClock, sinceBase } from './segment-clock.js';
import type { Part, Step } from './step.js';
import { type LaneStep, StepTracker } from './step-tracker.js';

/** Is told of every phase that has ended; times in the clock of the segment, step -1 where it belongs to none. */
export type PhaseObserver = (key: number, lane: number, start: number, duration: number, step: number) => void;

/** One stream, eager or captured (or one host thread, where there is no GPU). */
class Lane implements LaneStep {
  readonly stack = new NestingStack<Part | undefined>();
  part: Part | undefined;
  link = 0;
  /** Describes the phase that begins next. */
  call: CallFacts | undefined;
  /** Open phases other than a whole step. */
  busy = 0;
}

const { typeShift, laneShift, laneBits, phaseBits, begin, end, link } = LAYOUT.fence;
const LANE_MASK = (1 << laneBits) - 1;
const PHASE_MASK = (1 << phaseBits) - 1;

/** A phase of these kinds is not the work of the phase around it. */
const IS_APART = Object.values(KIND).map((kind) => kind === KIND.comm || kind === KIND.memory);

/** Pairs the begins and ends of a segment's fences and sums the phases onto steps. */
export class FencePairer {
  readonly steps: StepTracker;
  readonly #table: PhaseTable;
  readonly #clock: SegmentClock;
  readonly #drops: DropCounts;
  readonly #takeLinked: (record: number) => StepFacts | CallFacts | undefined;
  readonly #observe: PhaseObserver;
  /** By number, with holes. */
  readonly #lanes: Lane[] = [];
  #busyLanes = 0;
  #busySince = 0;
  #busy = 0;
  /** Time of the newest record. */
  newest = 0;

  constructor(
    table: PhaseTable,
    clock: SegmentClock,
    drops: DropCounts,
    takeLinked: (record: number) => StepFacts | CallFacts | undefined,
    observe: PhaseObserver,
    rewinds: number,
  ) {
    this.#table = table;
    this.#clock = clock;
    this.#drops = drops;
    this.#takeLinked = takeLinked;
    this.#observe = observe;
    this.steps = new StepTracker(rewinds);
  }

  /** Takes in drained records: `words` are those of the times, two a record. */
  take(words: Uint32Array, ids: Uint32Array, { count, lost }: Drained): void {
    if (lost > 0) this.#lose();
    for (let i = 0; i < count; i++) {
      const id = ids[i] as number;
      const laneNumber = (id >>> laneShift) & LANE_MASK;
      const lane = (this.#lanes[laneNumber] ??= new Lane());
      const phase = id & PHASE_MASK;
      const time = sinceBase(words[2 * i + 1] as number, words[2 * i] as number, this.#clock);
      this.newest = time;
      const type = id >>> typeShift;
      if (type === begin) this.#begin(lane, phase, time);
      else if (type === end) this.#end(lane, laneNumber, phase, time);
      else if (type === link) this.#link(lane, phase);
    }
  }

  /** Removes and returns the steps to which nothing can come any more, oldest first. */
  takeClosed(): Step[] {
    const closed = this.steps.takeClosed(this.#lanes.filter(Boolean));
    for (const step of closed) if (step.open > 0) this.#abandonAll((part) => part?.step === step);
    return closed;
  }

  /** The writer has gone: all that is left, oldest first. */
  finish(): Step[] {
    this.#abandonAll(() => true);
    return this.steps.takeAll();
  }

  /** Calls back for every phase that has begun and not ended. */
  forEachOpen(
    visit: (part: Part | undefined, phase: number, start: number, call: CallFacts | undefined) => void,
  ): void {
    for (const { stack } of this.#lanes.filter(Boolean))
      for (let at = 0; at < stack.depth; at++)
        visit(stack.owners[at], stack.phases[at] as number, stack.starts[at] as number, stack.calls[at]);
  }

  /**
   * Time with an open phase other than a whole step.
   * @param since gives the time that has gone by since a fence time
   */
  busy(since: (time: number) => number): number {
    return this.#busy + (this.#busyLanes > 0 ? since(this.#busySince) : 0);
  }

  #link(lane: Lane, record: number): void {
    const facts = this.#takeLinked(record);
    if (facts?.type === 'call') lane.call = facts;
    else this.steps.begin(lane, facts && facts.number >= 0 ? facts : undefined);
  }

  #begin(lane: Lane, phase: number, time: number): void {
    const call = lane.call?.phase === phase ? lane.call : undefined;
    lane.call = undefined;
    if (!this.#table.knows(phase)) return;
    const told = this.steps.partOf(lane);
    const part = told && call ? told.step.partOfCall(told, call) : told;
    const kind = this.#table.kindOf[phase];
    if (lane.stack.full) this.#abandon(lane, () => true);
    lane.stack.push(phase, time, part, call);
    if (part) part.step.dirty = true;
    // The border of a whole step says nothing of the work in it: it may last from step to step.
    if (kind === KIND.step) return;
    if (lane.busy++ === 0 && this.#busyLanes++ === 0) this.#busySince = time;
    if (!part) return;
    part.step.open++;
    if (kind !== KIND.host && time < part.step.begin) part.step.begin = time;
  }

  #end(lane: Lane, laneNumber: number, phase: number, time: number): void {
    const { stack } = lane;
    const at = stack.find(phase);
    if (at < 0) {
      this.#drops[this.#table.knows(phase) ? 'unopened' : 'unknown_phase']++;
      return;
    }
    if (at < stack.depth - 1) this.#abandonAbove(lane, at);
    stack.depth = at;
    const kind = this.#table.kindOf[phase] as number;
    if (kind !== KIND.step && --lane.busy === 0) this.#laneIdle(time);
    const start = stack.starts[at] as number;
    const whole = time - start;
    // Counted for all that the records stand for: a sampled phase holds a share of it.
    const apart = stack.nested[at] as number;
    const weight = this.#table.weightOf[phase] as number;
    if (at > 0) stack.nested[at - 1] = (stack.nested[at - 1] as number) + (IS_APART[kind] ? whole * weight : apart);
    const part = stack.owners[at];
    this.#observe(this.#table.keyOf[phase] as number, laneNumber, start, whole, part ? part.step.number : -1);
    if (!part) {
      this.#drops.no_step++;
      return;
    }
    if (kind !== KIND.step) part.step.open--;
    if (kind !== KIND.step && kind !== KIND.host && time > part.step.end) part.step.end = time;
    const own = kind === KIND.compute || kind === KIND.host ? Math.max(0, whole - apart / weight) : whole;
    this.#sum(part, phase, start, own, stack.calls[at]);
  }

  #sum({ step, sums }: Part, phase: number, start: number, duration: number, call: CallFacts | undefined): void {
    step.dirty = true;
    const { keys, keyOf, bytesOf, layerOf, weightOf } = this.#table;
    const key = keyOf[phase] as number;
    const bytes = call && call.bytes >= 0 ? call.bytes : (bytesOf[phase] as number);
    const weight = weightOf[phase] as number;
    sums.add(key, start, duration, bytes, weight);
    if (keys[key]?.itemised)
      sums.addItem(key, start, duration, bytes, layerOf[phase] as number, call ? call.sequence : -1, weight);
  }

  #laneIdle(time: number): void {
    if (--this.#busyLanes === 0) this.#busy += time - this.#busySince;
  }

  /** Records are missing: nobody knows which phases they closed. */
  #lose(): void {
    this.#abandonAll(() => true);
    for (const lane of this.#lanes.filter(Boolean)) lane.part = lane.call = undefined;
    this.steps.lose();
  }

  #abandonAll(gone: (part: Part | undefined) => boolean): void {
    for (const lane of this.#lanes.filter(Boolean)) this.#abandon(lane, gone);
  }

  /** Gives up open phases of a lane. */
  #abandon(lane: Lane, gone: (part: Part | undefined) => boolean): void {
    const { stack } = lane;
    for (let at = 0; at < stack.depth; at++) if (gone(stack.owners[at])) this.#giveUp(stack, at);
    stack.remove(gone);
    this.#recount(lane);
  }

  /** Gives up the phases nested in one that has ended. */
  #abandonAbove(lane: Lane, depth: number): void {
    const { stack } = lane;
    for (let at = depth + 1; at < stack.depth; at++) this.#giveUp(stack, at);
    stack.depth = depth + 1;
    this.#recount(lane);
  }

  #giveUp({ phases, owners }: NestingStack<Part | undefined>, at: number): void {
    if (this.#table.kindOf[phases[at] as number] === KIND.step) return;
    this.#drops.unclosed++;
    const step = owners[at]?.step;
    if (!step) return;
    step.open--;
    step.flags.partial = step.dirty = true;
  }

  #recount(lane: Lane): void {
    const was = lane.busy;
    lane.busy = 0;
    for (let at = 0; at < lane.stack.depth; at++)
      if (this.#table.kindOf[lane.stack.phases[at] as number] !== KIND.step) lane.busy++;
    if (was > 0 && lane.busy === 0) this.#laneIdle(this.newest);
  }
}
