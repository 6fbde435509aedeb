import { type PhaseBatch, rowOf } from '../../protocol/phase-batch.js';
import { type SimulateOptions, simulate } from '../../simulator/simulate.js';

/** A row with what tests look at; times in ns from the run's base. */
export interface SimulatedRow {
  readonly job: string;
  readonly run: string;
  readonly host: string;
  readonly rank: number;
  readonly step: number;
  readonly microbatch: number;
  readonly phase: string;
  readonly group: string;
  readonly seq: number;
  readonly open: boolean;
  readonly start: number;
  readonly dur: number;
  readonly end: number;
  readonly transfer: number;
  readonly busy: number;
  readonly launches: number;
  readonly bytes: number;
  readonly count: number;
  readonly tokens: number;
  readonly prefill: number;
  readonly decode: number;
  readonly context: number;
  readonly graph: number;
  readonly request: string;
  readonly usage: number;
  readonly running: number;
  readonly waiting: number;
  readonly preempted: number;
  readonly cached: number;
  readonly recomputed: number;
}

const BASE_NS = 1_770_000_000_000_000_000n;

export function simulatedRows(options: SimulateOptions): SimulatedRow[] {
  return [...simulate(options)].flatMap(rowsOf);
}

export function rowsOf(batch: PhaseBatch): SimulatedRow[] {
  const { job, run, host } = batch.meta;
  return Array.from({ length: batch.length }, (_, i) => {
    const row = rowOf(batch, i);
    const start = Number(BigInt(row.start_ns) - BASE_NS);
    const dur = Number(row.dur_ns);
    const { rank, microbatch, phase, group, tokens, graph, launches, request, count } = row;
    return {
      ...{ job, run, host, rank, microbatch, phase, group, tokens, graph, launches, request, count },
      ...{ step: Number(row.step), seq: Number(row.seq), open: Boolean(row.open), bytes: Number(row.bytes) },
      ...{ start, dur, end: start + dur, transfer: Number(row.transfer_ns), busy: Number(row.busy_ns) },
      ...{ prefill: row.prefill_tokens, decode: row.decode_tokens, context: Number(row.context_tokens) },
      ...{ usage: row.kv_usage, running: row.running, waiting: row.waiting, preempted: row.preempted },
      ...{ cached: Number(row.cached_tokens), recomputed: Number(row.recomputed_tokens) },
    };
  });
}

export function groupBy<T>(items: Iterable<T>, key: (item: T) => string | number): Map<string | number, T[]> {
  const groups = new Map<string | number, T[]>();
  for (const item of items) {
    const group = groups.get(key(item));
    if (group) group.push(item);
    else groups.set(key(item), [item]);
  }
  return groups;
}

export function median(values: Iterable<number>): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[sorted.length >> 1] ?? Number.NaN;
}

/** 1.4826 x the median absolute deviation: the standard deviation of what is normal, whatever the outliers. */
export function robustDeviation(values: Iterable<number>): number {
  const list = [...values];
  const middle = median(list);
  return 1.4826 * median(list.map((value) => Math.abs(value - middle)));
}

export const sumOf = (values: Iterable<number>): number => {
  let sum = 0;
  for (const value of values) sum += value;
  return sum;
};
export const meanOf = (values: readonly number[]): number => sumOf(values) / values.length;
