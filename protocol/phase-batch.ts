import { COLUMN_NAMES, type ColumnName, type ColumnType, columnSpec, type PHASE_COLUMNS } from './columns.js';
import { Int64Column } from './int64.js';
import type { JobMeta } from './job-meta.js';

/** A column of names: `values[indices[i]]` is row i's; '' means none. */
export interface NameColumn {
  readonly indices: Int32Array;
  readonly values: readonly string[];
}

interface ColumnOf {
  int32: Int32Array;
  int64: Int64Column;
  uint8: Uint8Array;
  uint32: Uint32Array;
  bool: Uint8Array;
  float32: Float32Array;
  name: NameColumn;
}

export type PhaseColumns = { [C in ColumnName]: ColumnOf[(typeof PHASE_COLUMNS)[C]['type']] };

/** Rows of one job, run and host, as they travel in one message: a typed array a column, each of `length` values. */
export interface PhaseBatch {
  readonly meta: JobMeta;
  readonly length: number;
  readonly columns: PhaseColumns;
}

type ValueOf = {
  int32: number;
  int64: number | bigint;
  uint8: number;
  uint32: number;
  bool: boolean | number;
  float32: number;
  name: string;
};
type RowValues = { [C in ColumnName]: ValueOf[(typeof PHASE_COLUMNS)[C]['type']] };

/** One row as an object: for importers, tests and people; the hot path never makes one. */
export type PhaseRow = Pick<RowValues, 'rank' | 'step' | 'phase' | 'start_ns' | 'dur_ns'> & Partial<RowValues>;

/** Collects rows into growing columns; absent values take the defaults of PHASE_COLUMNS. */
export class PhaseBatchBuilder {
  readonly meta: JobMeta;
  #length = 0;
  #capacity: number;
  #columns: PhaseColumns;
  readonly #names = new Map<ColumnName, Map<string, number>>();

  constructor(meta: JobMeta, capacity = 1024) {
    this.meta = meta;
    this.#capacity = capacity;
    this.#columns = newColumns(capacity);
  }

  get length(): number {
    return this.#length;
  }

  push(row: PhaseRow): void {
    if (this.#length === this.#capacity) this.#grow();
    const i = this.#length++;
    for (const name of COLUMN_NAMES) this.#set(name, i, row[name] ?? columnSpec(name).absent);
  }

  /** The rows so far; the builder starts empty again. */
  take(): PhaseBatch {
    const batch = { meta: this.meta, length: this.#length, columns: sliced(this.#columns, this.#length) };
    this.#length = 0;
    this.#columns = newColumns(this.#capacity);
    this.#names.clear();
    return batch;
  }

  #set(name: ColumnName, i: number, value: unknown): void {
    const column = this.#columns[name];
    if (column instanceof Int64Column) column.set(i, value as number | bigint);
    else if ('indices' in column) column.indices[i] = this.#intern(name, value as string);
    else (column as Int32Array)[i] = Number(value);
  }

  #intern(name: ColumnName, value: string): number {
    let known = this.#names.get(name);
    if (!known) this.#names.set(name, (known = new Map()));
    let id = known.get(value);
    if (id === undefined) {
      id = known.size;
      known.set(value, id);
      ((this.#columns[name] as NameColumn).values as string[]).push(value);
    }
    return id;
  }

  #grow(): void {
    const old = this.#columns;
    this.#capacity *= 2;
    this.#columns = newColumns(this.#capacity);
    for (const name of COLUMN_NAMES) {
      const from = old[name];
      const to = this.#columns[name];
      if (from instanceof Int64Column) (to as Int64Column).words.set(from.words);
      else if ('indices' in from) {
        (to as NameColumn).indices.set(from.indices);
        ((to as NameColumn).values as string[]).push(...from.values);
      } else (to as Int32Array).set(from);
    }
  }
}

/** An empty column of a type. */
export function newColumn(type: ColumnType, length: number): PhaseColumns[ColumnName] {
  switch (type) {
    case 'int32':
      return new Int32Array(length);
    case 'int64':
      return Int64Column.ofLength(length);
    case 'uint8':
    case 'bool':
      return new Uint8Array(length);
    case 'uint32':
      return new Uint32Array(length);
    case 'float32':
      return new Float32Array(length);
    case 'name':
      return { indices: new Int32Array(length), values: [] };
  }
}

function newColumns(length: number): PhaseColumns {
  const entries = COLUMN_NAMES.map((name) => [name, newColumn(columnSpec(name).type, length)]);
  return Object.fromEntries(entries) as PhaseColumns;
}

function sliced(columns: PhaseColumns, length: number): PhaseColumns {
  const entries = COLUMN_NAMES.map((name) => {
    const column = columns[name];
    if (column instanceof Int64Column) return [name, new Int64Column(column.words.subarray(0, 2 * length))];
    if ('indices' in column) return [name, { indices: column.indices.subarray(0, length), values: column.values }];
    return [name, column.subarray(0, length)];
  });
  return Object.fromEntries(entries) as PhaseColumns;
}

/** Row i as an object, every column present: for people and tests. */
export function rowOf(batch: PhaseBatch, i: number): RowValues {
  const entries = COLUMN_NAMES.map((name) => {
    const column = batch.columns[name];
    if (column instanceof Int64Column) return [name, column.bigint(i)];
    if ('indices' in column) return [name, column.values[column.indices[i] as number] ?? ''];
    return [name, column[i]];
  });
  return Object.fromEntries(entries) as RowValues;
}
