import { isAbsent } from '../../protocol/absent-columns.js';
import { type Int64, int64Of } from '../../protocol/int64.js';
import type { PhaseBatch } from '../../protocol/phase-batch.js';
import { BLOCKING_OPS } from '../../protocol/vocabulary.js';
import { lowerMedian } from '../reference/statistics.js';
import { type JobBatch, newStepMemory, type StepMemory, StepRows } from './step-rows.js';
import { SERVING_FACTS } from './step-view.js';
import { internName, internPhase, type JobTopology, mergeMeta, slotOf } from './topology.js';

/**
 * Steps of one job and run, put together by step number, never by time: a skewed clock or an idle partition can neither
 * stall nor skip a step. A step closes when every live rank has sent a later one. Ranks that a communicator names are
 * live before they have sent anything, so that hosts may start one after the other. A rank that stays behind is given up
 * for the step once most of the others, each by its own clock, are LATENESS_NS further on, or too much waits.
 */
export interface AssemblerState {
  /** slot -> highest step it has sent */
  progress: Map<number, number>;
  /** Ranks that did not appear in a step that closed are not waited for until they send again. */
  live: Set<number>;
  closedThrough: number;
  /** Highest step that is believed: see `isFarAhead`. */
  frontier: number;
  /** slot -> start of its newest step, nanoseconds on its own clock */
  newest: Map<number, number>;
  counts: AssemblerCounts;
}

export interface AssemblerCounts {
  rows: number;
  duplicates: number;
  late: number;
  farAhead: number;
  steps: number;
  partialSteps: number;
}

/** Collectors send seconds of decode steps in one message, and after an outage minutes of their spool. */
export const LATENESS_NS = 300e9;
export const MAX_WAITING_STEPS = 4096;
/** About 600 MB of messages. */
const MAX_WAITING_ROWS = 4_000_000;
/** Steps of a message are taken in before they close: as many are kept ready as a message of decode steps has. */
const MAX_SPARE = 128;
/** Sampled traces skip hundreds of steps; a lone step further ahead is a broken record until another confirms it. */
const FAR_STEPS = 1024;

export const newAssemblerState = (): AssemblerState => ({
  progress: new Map(),
  live: new Set(),
  closedThrough: -1,
  frontier: -1,
  newest: new Map(),
  counts: { rows: 0, duplicates: 0, late: 0, farAhead: 0, steps: 0, partialSteps: 0 },
});

export interface ClosedStep {
  readonly rows: StepRows;
  /** Slots that were waited for. */
  readonly live: number[];
}

export class Assembler {
  readonly state: AssemblerState;
  readonly #topology: JobTopology;
  /** By step, in the order of their numbers where it matters. */
  readonly #pending = new Map<number, StepRows>();
  /** Memory of steps that have closed. */
  readonly #spare: StepMemory[] = [];
  #waitingRows = 0;

  constructor(topology: JobTopology, state: AssemblerState = newAssemblerState()) {
    this.#topology = topology;
    this.state = state;
  }

  /** Offset of the oldest message with rows of a step that has not closed; undefined: none waits. */
  get oldestOffset(): bigint | undefined {
    let oldest: bigint | undefined;
    for (const { offset } of this.#pending.values()) if (oldest === undefined || offset < oldest) oldest = offset;
    return oldest;
  }

  /**
   * Takes in the rows that `keep` allows (null: all).
   * Counts nothing when `again`: rows that were counted before the restart and are read once more.
   */
  add(batch: PhaseBatch, keep: Uint8Array | null, again: boolean, offset: bigint): void {
    const source = internBatch(batch, this.#topology);
    this.#expectMembers(batch);
    const { rank, step, start_ns } = batch.columns;
    const counts = again ? newAssemblerState().counts : this.state.counts;
    let rows: StepRows | undefined;
    let [lastRank, slot] = [-1, -1];
    for (let i = 0; i < batch.length; i++) {
      if (keep && keep[i] === 0) continue;
      counts.rows++;
      const number = step.number(i);
      if (number <= this.state.closedThrough) {
        counts.late++;
        continue;
      }
      // Rows of one rank and step come together: what depends on these two only is done once.
      if (rows?.step !== number || rank[i] !== lastRank) {
        if (rows?.step !== number) rows = this.#rowsOf(number, offset, rows?.length ?? 0);
        lastRank = rank[i] as number;
        slot = slotOf(this.#topology, lastRank, batch.meta.host);
        this.#advance(slot, number, start_ns.number(i), rows);
      }
      if (rows.add(source, i, slot)) this.#waitingRows++;
      else counts.duplicates++;
    }
  }

  /** Steps that are complete, oldest first. */
  *close(): Generator<ClosedStep> {
    let complete = this.#completeBelow();
    for (const step of this.#believed()) {
      if (step >= complete) {
        if (!this.#isOverdue(step)) return;
        yield this.#closeOne(step);
        complete = this.#completeBelow();
      } else yield this.#closeOne(step);
    }
  }

  /** All that waits, oldest first: at the end of a file, or of a job that has gone silent. */
  *closeAll(): Generator<ClosedStep> {
    for (const step of this.#believed()) yield this.#closeOne(step);
    for (const rows of this.#pending.values()) this.state.counts.farAhead += rows.length;
    this.#pending.clear();
    this.#waitingRows = 0;
  }

  /** Takes back the memory of a closed step that nobody reads any more. */
  reuse(rows: StepRows): void {
    if (this.#spare.length < MAX_SPARE) this.#spare.push(rows.release());
  }

  /** Ranks that communicators name are waited for from the first message on. */
  #expectMembers({ meta }: PhaseBatch): void {
    for (const ranks of Object.values(meta.groups))
      for (const rank of ranks)
        if (!this.#topology.slotOfRank.has(rank)) this.state.live.add(slotOf(this.#topology, rank, ''));
  }

  /** A step that some rank has not sent is given up. */
  #isOverdue(step: number): boolean {
    if (this.#pending.size > MAX_WAITING_STEPS || this.#waitingRows > MAX_WAITING_ROWS) return true;
    const starts = (this.#pending.get(step) as StepRows).starts;
    const leads = [...starts].map(([slot, start]) => (this.state.newest.get(slot) ?? start) - start);
    return lowerMedian(leads) > LATENESS_NS;
  }

  /** Every live rank has sent this step or a later one. */
  #completeBelow(): number {
    let least = Number.POSITIVE_INFINITY;
    for (const slot of this.state.live) least = Math.min(least, this.state.progress.get(slot) ?? -1);
    return least;
  }

  #rowsOf(step: number, offset: bigint, expected: number): StepRows {
    let rows = this.#pending.get(step);
    if (!rows)
      this.#pending.set(step, (rows = new StepRows(step, offset, this.#spare.pop() ?? newStepMemory(expected))));
    return rows;
  }

  #advance(slot: number, step: number, start: number, rows: StepRows): void {
    if (!rows.starts.has(slot)) rows.starts.set(slot, start);
    const known = this.state.progress.get(slot) ?? -1;
    this.state.live.add(slot);
    if (step <= known && step >= known - FAR_STEPS) return;
    const { frontier } = this.state;
    if (frontier < 0 || step <= frontier + FAR_STEPS) {
      // Also back from a step that only a broken record had reached.
      this.#believe(slot, step, start);
      if (step > frontier) this.state.frontier = step;
    } else if (this.#isConfirmed(slot, step)) {
      this.#believe(slot, step, start);
      this.state.frontier = step;
    }
  }

  #believe(slot: number, step: number, start: number): void {
    this.state.progress.set(slot, step);
    this.state.newest.set(slot, start);
  }

  /** A step far ahead is believed once another rank, or the same one in another step, has got there too. */
  #isConfirmed(slot: number, step: number): boolean {
    for (const [other, rows] of this.#pending) {
      if (Math.abs(other - step) > FAR_STEPS) continue;
      if (other !== step || [...rows.starts.keys()].some((one) => one !== slot)) return true;
    }
    return false;
  }

  #believed(): number[] {
    return [...this.#pending.keys()].filter((step) => step <= this.state.frontier).sort((a, b) => a - b);
  }

  #closeOne(step: number): ClosedStep {
    const rows = this.#pending.get(step) as StepRows;
    this.#pending.delete(step);
    this.#waitingRows -= rows.length;
    const live = [...this.state.live];
    const absent = live.filter((slot) => !rows.starts.has(slot) && (this.state.progress.get(slot) ?? -1) <= step);
    for (const slot of absent) this.state.live.delete(slot);
    this.state.closedThrough = step;
    this.state.counts.steps++;
    if (live.some((slot) => !rows.starts.has(slot))) this.state.counts.partialSteps++;
    return { rows, live };
  }
}

function internBatch(batch: PhaseBatch, topology: JobTopology): JobBatch {
  mergeMeta(topology, batch.meta);
  const { phase, group, op, nic, link } = batch.columns;
  return {
    batch,
    blocking: Uint8Array.from(op.values, (name) => (BLOCKING_OPS.has(name) ? 1 : 0)),
    facts: SERVING_FACTS.map((name) => ({ name, column: batch.columns[name] })).filter(
      ({ column }) => !isAbsent(column),
    ),
    namesPorts: [...nic.values, ...link.values].some((name) => name !== ''),
    phaseIds: Int32Array.from(phase.values, (name) => internPhase(topology, name)),
    groupIds: Int32Array.from(group.values, (name) => internName(topology.groupNames, name)),
  };
}

/** Start of the first row: what a run's times are counted from. */
export const baseOf = (batch: PhaseBatch, keep: Uint8Array | null): Int64 => {
  for (let i = 0; i < batch.length; i++) if (!keep || keep[i] === 1) return int64Of(batch.columns.start_ns.bigint(i));
  return int64Of(0n);
};
