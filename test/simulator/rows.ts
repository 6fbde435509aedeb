import { rowOf } from '../../protocol/phase-batch.js';
import { type SimulateOptions, simulate } from '../../simulator/simulate.js';

/** A row with what tests look at; times in ns from the run's base. */
export interface SimulatedRow {
  readonly job: string;
  readonly host: string;
  readonly rank: number;
  readonly step: number;
  readonly microbatch: number;
  readonly phase: string;
  readonly group: string;
  readonly seq: number;
  readonly start: number;
  readonly dur: number;
  readonly end: number;
  readonly transfer: number;
  readonly tokens: number;
  readonly graph: number;
}

const BASE_NS = 1_770_000_000_000_000_000n;

export function simulatedRows(options: SimulateOptions): SimulatedRow[] {
  const rows: SimulatedRow[] = [];
  for (const batch of simulate(options))
    for (let i = 0; i < batch.length; i++) {
      const row = rowOf(batch, i);
      const start = Number(BigInt(row.start_ns) - BASE_NS);
      const dur = Number(row.dur_ns);
      const { rank, microbatch, phase, group, tokens, graph } = row;
      rows.push({
        ...{ job: batch.meta.job, host: batch.meta.host, rank, microbatch, phase, group, tokens, graph },
        ...{ step: Number(row.step), seq: Number(row.seq), transfer: Number(row.transfer_ns) },
        ...{ start, dur, end: start + dur },
      });
    }
  return rows;
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
