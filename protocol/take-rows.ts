import { COLUMN_NAMES, type ColumnName, columnSpec } from './columns.js';
import { Int64Column } from './int64.js';
import { type NameColumn, newColumn, type PhaseBatch, type PhaseColumns } from './phase-batch.js';

type AnyColumn = PhaseColumns[ColumnName];

/** A batch of the given rows in the given order; its dictionaries hold only the names that these rows use. */
export function takeRows(batch: PhaseBatch, rows: Uint32Array): PhaseBatch {
  const columns = mapColumns((name) => takeColumn(name, batch.columns[name], rows));
  return { meta: batch.meta, length: rows.length, columns };
}

/** The rows marked 1, as `checkRows` marks them. */
export function keepRows(batch: PhaseBatch, keep: Uint8Array): PhaseBatch {
  const rows = new Uint32Array(batch.length);
  let kept = 0;
  for (let i = 0; i < batch.length; i++) if (keep[i]) rows[kept++] = i;
  return takeRows(batch, rows.subarray(0, kept));
}

/** All rows in one batch, with the first one's meta. */
export function concatBatches(batches: readonly [PhaseBatch, ...PhaseBatch[]]): PhaseBatch {
  const length = batches.reduce((sum, batch) => sum + batch.length, 0);
  return { meta: batches[0].meta, length, columns: mapColumns((name) => concatColumn(name, batches, length)) };
}

function mapColumns(make: (name: ColumnName) => AnyColumn): PhaseColumns {
  return Object.fromEntries(COLUMN_NAMES.map((name) => [name, make(name)])) as PhaseColumns;
}

function takeColumn(name: ColumnName, column: AnyColumn, rows: Uint32Array): AnyColumn {
  if (column instanceof Int64Column) {
    const words = new Int32Array(2 * rows.length);
    for (let i = 0; i < rows.length; i++) {
      const row = rows[i] as number;
      words[2 * i] = column.words[2 * row] as number;
      words[2 * i + 1] = column.words[2 * row + 1] as number;
    }
    return new Int64Column(words);
  }
  if ('indices' in column) return takeNames(column, rows);
  const taken = newColumn(columnSpec(name).type, rows.length) as Int32Array;
  for (let i = 0; i < rows.length; i++) taken[i] = column[rows[i] as number] as number;
  return taken;
}

function takeNames(column: NameColumn, rows: Uint32Array): NameColumn {
  const indices = new Int32Array(rows.length);
  const values: string[] = [];
  const renumbered = new Int32Array(column.values.length).fill(-1);
  for (let i = 0; i < rows.length; i++) {
    const old = column.indices[rows[i] as number] as number;
    if (renumbered[old] === -1) renumbered[old] = values.push(column.values[old] ?? '') - 1;
    indices[i] = renumbered[old] as number;
  }
  return { indices, values };
}

function concatColumn(name: ColumnName, batches: readonly PhaseBatch[], length: number): AnyColumn {
  const { type } = columnSpec(name);
  if (type === 'name')
    return concatNames(
      batches.map((batch) => batch.columns[name] as NameColumn),
      length,
    );
  const whole = newColumn(type, length);
  let at = 0;
  for (const batch of batches) {
    const column = batch.columns[name];
    if (column instanceof Int64Column)
      (whole as Int64Column).words.set(column.words.subarray(0, 2 * batch.length), 2 * at);
    else (whole as Int32Array).set((column as Int32Array).subarray(0, batch.length), at);
    at += batch.length;
  }
  return whole;
}

function concatNames(columns: readonly NameColumn[], length: number): NameColumn {
  const indices = new Int32Array(length);
  const ids = new Map<string, number>();
  let at = 0;
  for (const column of columns) {
    const renumbered = column.values.map((value) => {
      if (!ids.has(value)) ids.set(value, ids.size);
      return ids.get(value) as number;
    });
    for (const index of column.indices) indices[at++] = renumbered[index] as number;
  }
  return { indices, values: [...ids.keys()] };
}
