import { COLUMN_NAMES, columnSpec } from '../protocol/columns.js';
import { Int64Column } from '../protocol/int64.js';
import type { JobMeta } from '../protocol/job-meta.js';
import { newColumn, type PhaseBatch, type PhaseColumns } from '../protocol/phase-batch.js';

/** Columns that every row has; of the others the absent ones take the defaults of PHASE_COLUMNS. */
type GivenColumns = Partial<PhaseColumns> & Pick<PhaseColumns, 'rank' | 'step' | 'phase' | 'start_ns' | 'dur_ns'>;

/** A batch over whole columns, each of `length` values. */
export function batchOfColumns(meta: JobMeta, length: number, given: GivenColumns): PhaseBatch {
  const columns = Object.fromEntries(COLUMN_NAMES.map((name) => [name, given[name] ?? absentColumn(name, length)]));
  return { meta, length, columns: columns as PhaseColumns };
}

function absentColumn(name: keyof PhaseColumns, length: number): PhaseColumns[keyof PhaseColumns] {
  const { type, absent } = columnSpec(name);
  if (type === 'name') return { indices: new Int32Array(length), values: [absent as string] };
  const column = newColumn(type, length);
  // Of an int64 both words at once: right for the -1 and 0 that are the defaults.
  if (column instanceof Int64Column) column.words.fill(absent as number);
  else (column as Int32Array).fill(absent as number);
  return column;
}
