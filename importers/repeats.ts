import type { PhaseBatch, PhaseColumns } from '../protocol/phase-batch.js';

/**
 * Numbers, in place, the phases that a rank repeats within a step without numbering them itself: without a seq they
 * would have one identity and replace each other. Numbers go by start; rows of one start are the same phase sent twice.
 * `order` is of whole steps.
 */
export function numberRepeats({ columns }: PhaseBatch, order: Uint32Array): void {
  let step = Number.NaN;
  let ofStep = new Map<string, number[]>();
  for (const row of order) {
    if (columns.step.number(row) !== step) {
      for (const rows of ofStep.values()) number(columns, rows);
      ofStep = new Map();
      step = columns.step.number(row);
    }
    if (columns.seq.number(row) !== -1) continue;
    const key = identity(columns, row);
    const same = ofStep.get(key);
    if (same) same.push(row);
    else ofStep.set(key, [row]);
  }
  for (const rows of ofStep.values()) number(columns, rows);
}

const identity = ({ rank, phase, layer, microbatch, group }: PhaseColumns, row: number): string =>
  `${rank[row]} ${phase.indices[row]} ${layer[row]} ${microbatch[row]} ${group.indices[row]}`;

function number({ start_ns, seq }: PhaseColumns, rows: readonly number[]): void {
  if (rows.length === 1) return;
  const starts = [...new Set(rows.map((row) => start_ns.bigint(row)))].sort((a, b) => (a < b ? -1 : 1));
  if (starts.length === 1) return;
  const numbers = new Map(starts.map((start, i) => [start, i]));
  for (const row of rows) seq.set(row, numbers.get(start_ns.bigint(row)) as number);
}
