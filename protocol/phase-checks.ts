import { isAbsent } from './absent-columns.js';
import { Int64Column, int64Of } from './int64.js';
import { MAX_DURATION_NS, MAX_RANK, MAX_START_NS } from './limits.js';
import type { PhaseBatch } from './phase-batch.js';

/** Why a row is impossible: a closed list, since it becomes a metric label and evidence of `data_quality`. */
export const ROW_FAULTS = [
  'start_zero',
  'start_out_of_range',
  'duration_negative',
  'duration_too_long',
  'rank_out_of_range',
  'step_negative',
  'negative_value',
  'phase_empty',
] as const;
export type RowFault = (typeof ROW_FAULTS)[number];

/** Rows dropped for one reason, and the first of them. */
export interface FaultCount {
  count: number;
  readonly firstRow: number;
}

export interface RowChecks {
  /** 1 for each good row, 0 for each impossible one; null: all are good. */
  readonly keep: Uint8Array | null;
  /** Each bad row is counted once, under its first fault. */
  readonly dropped: ReadonlyMap<RowFault, FaultCount>;
}

const NOTHING_DROPPED: RowChecks = { keep: null, dropped: new Map() };
const MAX_START = Number(MAX_START_NS);
const MAX_START_HIGH = int64Of(MAX_START_NS).high;

/** Integer columns in which -1 is the smallest value with a meaning. */
const NOT_BELOW_MINUS_ONE = [
  'layer',
  'microbatch',
  'count',
  'launches',
  'tokens',
  'prefill_tokens',
  'decode_tokens',
  'batch',
  'graph',
  'running',
  'waiting',
  'preempted',
  'kv_usage',
  'max_ns',
  'busy_ns',
  'seq',
  'transfer_ns',
  'bytes',
  'context_tokens',
  'cached_tokens',
  'recomputed_tokens',
] as const;

/** Finds rows that cannot be true; a good start with a duration of 0 can. */
export function checkRows(batch: PhaseBatch): RowChecks {
  const bad = new BadRows(batch.length);
  checkTimes(batch, bad);
  const { rank, step } = batch.columns;
  for (let i = 0; i < batch.length; i++) {
    const value = rank[i] as number;
    if (value < 0 || value > MAX_RANK) bad.add(i, 'rank_out_of_range');
  }
  for (let i = 0; i < batch.length; i++) if ((step.words[2 * i + 1] as number) < 0) bad.add(i, 'step_negative');
  for (const name of NOT_BELOW_MINUS_ONE)
    if (!isAbsent(batch.columns[name])) checkNotBelowMinusOne(batch.columns[name], batch.length, bad);
  checkPhases(batch, bad);
  return bad.keep ? { keep: bad.keep, dropped: bad.dropped } : NOTHING_DROPPED;
}

function checkTimes(batch: PhaseBatch, bad: BadRows): void {
  const { start_ns, dur_ns } = batch.columns;
  for (let i = 0; i < batch.length; i++) {
    // The upper half alone tells of nearly every row that it is good, here and below.
    const high = start_ns.words[2 * i + 1] as number;
    if (high > 0 && high < MAX_START_HIGH) continue;
    const start = start_ns.number(i);
    if (start === 0) bad.add(i, 'start_zero');
    else if (start < 0 || start > MAX_START) bad.add(i, 'start_out_of_range');
  }
  for (let i = 0; i < batch.length; i++) {
    if (dur_ns.words[2 * i + 1] === 0) continue;
    const duration = dur_ns.number(i);
    if (duration < 0) bad.add(i, 'duration_negative');
    else if (duration > MAX_DURATION_NS) bad.add(i, 'duration_too_long');
  }
}

function checkPhases({ columns: { phase }, length }: PhaseBatch, bad: BadRows): void {
  const isEmpty = phase.values.map((name) => name.trim() === '');
  if (!isEmpty.includes(true)) return;
  for (let i = 0; i < length; i++) if (isEmpty[phase.indices[i] as number]) bad.add(i, 'phase_empty');
}

function checkNotBelowMinusOne(column: Int64Column | Int32Array | Float32Array, length: number, bad: BadRows): void {
  if (column instanceof Int64Column) {
    const { words } = column;
    // Negative and not -1, whose both words are -1.
    for (let i = 0; i < length; i++)
      if ((words[2 * i + 1] as number) < 0 && ((words[2 * i + 1] as number) & (words[2 * i] as number)) !== -1)
        bad.add(i, 'negative_value');
  } else if (column instanceof Int32Array) {
    for (let i = 0; i < length; i++) if ((column[i] as number) < -1) bad.add(i, 'negative_value');
  } else {
    // Written so that NaN is bad too.
    for (let i = 0; i < length; i++) if (!((column[i] as number) >= -1)) bad.add(i, 'negative_value');
  }
}

/** The rows found bad so far; nothing is allocated until there is one. */
class BadRows {
  readonly #length: number;
  readonly dropped = new Map<RowFault, FaultCount>();
  keep: Uint8Array | null = null;

  constructor(length: number) {
    this.#length = length;
  }

  add(row: number, fault: RowFault): void {
    this.keep ??= new Uint8Array(this.#length).fill(1);
    if (this.keep[row] === 0) return;
    this.keep[row] = 0;
    const known = this.dropped.get(fault);
    if (known) known.count++;
    else this.dropped.set(fault, { count: 1, firstRow: row });
  }
}
