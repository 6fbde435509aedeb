import type { Int64 } from '../../protocol/int64.js';
import { KIND } from '../../protocol/vocabulary.js';
import type { JobBatch, StepRows } from './step-rows.js';
import type { BySlot } from './step-view.js';
import { type JobTopology, TRAIT } from './topology.js';

/** What the time inside the steps' own rows in which none of a rank's phases ran is made from; by slot. */
export interface IdleTotals {
  /** Durations of the step's own rows, nanoseconds, and the time from the first of them to the end of the last. */
  stepRow: BySlot;
  begin: BySlot;
  end: BySlot;
  /** Where the phases seen so far end. */
  coveredTo: BySlot;
  /** 1: phases run beside each other or came in another order, so that their durations do not add up. */
  overlaps: Uint8Array;
  /** 1: rows that sum several phases, which lie nobody knows where. */
  sums: Uint8Array;
  /** 1: waits for the stage before or after are rows of their own. */
  receives: Uint8Array;
}

export const newIdleTotals = (n: number): IdleTotals => ({
  stepRow: new Float64Array(n),
  begin: new Float64Array(n).fill(Number.POSITIVE_INFINITY),
  end: new Float64Array(n).fill(Number.NEGATIVE_INFINITY),
  coveredTo: new Float64Array(n).fill(Number.NEGATIVE_INFINITY),
  overlaps: new Uint8Array(n),
  sums: new Uint8Array(n),
  receives: new Uint8Array(n),
});

/** Takes in one row: `start` in nanoseconds after the base, like `duration`. */
export function noteIdle(
  idle: IdleTotals,
  source: JobBatch,
  i: number,
  slot: number,
  traits: number,
  start: number,
  duration: number,
): void {
  const { columns } = source.batch;
  const end = start + duration;
  if (columns.kind[i] === KIND.step) {
    idle.stepRow[slot] = (idle.stepRow[slot] as number) + duration;
    if (start < (idle.begin[slot] as number)) idle.begin[slot] = start;
    if (end > (idle.end[slot] as number)) idle.end[slot] = end;
    return;
  }
  if ((columns.count[i] as number) > 1) idle.sums[slot] = 1;
  if (columns.op.values[columns.op.indices[i] as number] === 'recv') idle.receives[slot] = 1;
  // Parts lie within the whole phases, host rows beside what the GPU does: bySums knows.
  if (columns.kind[i] === KIND.host || (traits & TRAIT.part && end <= (idle.coveredTo[slot] as number))) return;
  if (start < (idle.coveredTo[slot] as number)) idle.overlaps[slot] = 1;
  if (end > (idle.coveredTo[slot] as number)) idle.coveredTo[slot] = end;
}

interface Durations {
  readonly idle: IdleTotals;
  readonly phases: readonly (BySlot | undefined)[];
  readonly hostTime: BySlot;
  /** Of it, what lies after the first GPU phase. */
  readonly hostInside: BySlot;
  readonly hasWhole: boolean;
}

/**
 * By slot: time inside the step's own rows in which none of a rank's phases ran; NaN where no such rows or nothing but them
 * were sent. A stage of a pipeline waits for others: its idle time is its own where such waits are rows of their own.
 */
export function idleInside(rows: StepRows, totals: Durations, topology: JobTopology, base: Int64): BySlot {
  const { stepRow, overlaps, sums, receives } = totals.idle;
  const idle = new Float64Array(stepRow.length).fill(Number.NaN);
  const staged = topology.stages.some((stage) => stage !== topology.stages[0]);
  const united = new Map<number, number[]>();
  stepRow.forEach((inStep, slot) => {
    if (inStep === 0 || (staged && receives[slot] === 0)) return;
    if (overlaps[slot] === 1 && sums[slot] === 0) united.set(slot, []);
    else idle[slot] = bySums(totals, topology, slot);
  });
  if (united.size > 0) uncovered(rows, totals.idle, base, united, idle);
  return idle;
}

/** Parts that fit into what the whole phases leave lie beside them (experts, where forward is all but them), and else inside. */
function bySums(totals: Durations, topology: JobTopology, slot: number): number {
  const { phases, hostTime, hostInside, hasWhole } = totals;
  const inStep = totals.idle.stepRow[slot] as number;
  let [covered, inParts] = [-inStep - (hostTime[slot] as number), 0];
  phases.forEach((durations, id) => {
    const time = (durations?.[slot] as number) || 0;
    if (hasWhole && (topology.phaseTraits[id] as number) & TRAIT.part) inParts += time;
    else covered += time;
  });
  if (!(covered > 0)) return Number.NaN;
  const left = inStep - covered - (hostInside[slot] as number);
  return Math.max(0, left >= inParts ? left - inParts : left);
}

/** Where phases run beside each other only the time that none of them covers counts, however long they are in sum. */
function uncovered(
  rows: StepRows,
  { stepRow, begin, end }: IdleTotals,
  base: Int64,
  united: ReadonlyMap<number, number[]>,
  idle: BySlot,
): void {
  rows.forEach((source, i, slot) => {
    const spans = united.get(slot);
    const { kind, open, start_ns, dur_ns } = source.batch.columns;
    if (!spans || open[i] || kind[i] === KIND.step) return;
    const start = start_ns.since(i, base);
    const from = Math.max(start, begin[slot] as number);
    const to = Math.min(start + dur_ns.number(i), end[slot] as number);
    if (to > from) spans.push(from, to);
  });
  for (const [slot, spans] of united)
    if (spans.length > 0) idle[slot] = Math.max(0, (stepRow[slot] as number) - unionLength(spans));
}

/** Length of a union of spans, given as begin, end, begin, end ... */
export function unionLength(spans: readonly number[]): number {
  const order = Array.from({ length: spans.length / 2 }, (_, k) => 2 * k);
  order.sort((a, b) => (spans[a] as number) - (spans[b] as number));
  let [length, coveredTo] = [0, Number.NEGATIVE_INFINITY];
  for (const at of order) {
    const end = spans[at + 1] as number;
    if (end > coveredTo) {
      length += end - Math.max(coveredTo, spans[at] as number);
      coveredTo = end;
    }
  }
  return length;
}
