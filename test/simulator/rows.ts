import { int64Of } from '../../protocol/int64.js';
import type { NameColumn, PhaseBatch } from '../../protocol/phase-batch.js';
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

const BASE = int64Of(1_770_000_000_000_000_000n);

export function simulatedRows(options: SimulateOptions): SimulatedRow[] {
  return [...simulate(options)].flatMap(rowsOf);
}

export function rowsOf({ meta, length, columns }: PhaseBatch): SimulatedRow[] {
  const { job, run, host } = meta;
  const name = ({ indices, values }: NameColumn, i: number): string => values[indices[i] as number] as string;
  return Array.from({ length }, (_, i) => {
    const start = columns.start_ns.since(i, BASE);
    const dur = columns.dur_ns.number(i);
    return {
      job,
      run,
      host,
      start,
      dur,
      end: start + dur,
      rank: columns.rank[i] as number,
      step: columns.step.number(i),
      microbatch: columns.microbatch[i] as number,
      phase: name(columns.phase, i),
      group: name(columns.group, i),
      request: name(columns.request, i),
      seq: columns.seq.number(i),
      open: columns.open[i] === 1,
      transfer: columns.transfer_ns.number(i),
      busy: columns.busy_ns.number(i),
      launches: columns.launches[i] as number,
      bytes: columns.bytes.number(i),
      count: columns.count[i] as number,
      tokens: columns.tokens[i] as number,
      prefill: columns.prefill_tokens[i] as number,
      decode: columns.decode_tokens[i] as number,
      context: columns.context_tokens.number(i),
      graph: columns.graph[i] as number,
      usage: columns.kv_usage[i] as number,
      running: columns.running[i] as number,
      waiting: columns.waiting[i] as number,
      preempted: columns.preempted[i] as number,
      cached: columns.cached_tokens.number(i),
      recomputed: columns.recomputed_tokens.number(i),
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
