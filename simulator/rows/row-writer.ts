import { COLUMN_NAMES, type ColumnName, columnSpec } from '../../protocol/columns.js';
import { type Int64, Int64Column, int64Of } from '../../protocol/int64.js';
import type { JobMeta } from '../../protocol/job-meta.js';
import {
  type NameColumn,
  newColumn,
  type PhaseBatch,
  type PhaseColumns,
  type PhaseRow,
} from '../../protocol/phase-batch.js';

/** Rows a message holds at most; well inside MAX_MESSAGE_ROWS. */
export const MESSAGE_ROWS = 2000;

export type RowFacts = Omit<PhaseRow, 'rank' | 'start_ns' | 'dur_ns'>;

/** Writes rows of one host straight into the columns of its next message: a fleet's worth of rows is too many for objects. */
export class RowWriter {
  readonly #meta: JobMeta;
  readonly #base: Int64;
  #length = 0;
  #columns = emptyColumns();
  /** By column of names: name -> its index. */
  #names = new Map<string, Map<string, number>>();

  constructor(meta: JobMeta, baseNs: bigint) {
    this.#meta = meta;
    this.#base = int64Of(baseNs);
  }

  get length(): number {
    return this.#length;
  }

  /** A row that starts whole nanoseconds after the base. The writer must not be full. */
  add(rank: number, startNs: number, durNs: number, facts: RowFacts): void {
    const i = this.#length++;
    const columns = this.#columns;
    columns.rank[i] = rank;
    const low = this.#base.low + startNs;
    const carry = Math.floor(low / 4294967296);
    columns.start_ns.words[2 * i] = low - carry * 4294967296;
    columns.start_ns.words[2 * i + 1] = this.#base.high + carry;
    columns.dur_ns.set(i, durNs);
    for (const name in facts) {
      const column = columns[name as ColumnName];
      const value = facts[name as keyof RowFacts] as number | string;
      if (column instanceof Int64Column) column.set(i, value as number);
      else if ('indices' in column) column.indices[i] = this.#intern(name, column, value as string);
      else column[i] = value as number;
    }
  }

  /** The rows so far as a message; the writer starts anew. */
  take(): PhaseBatch {
    const batch = { meta: this.#meta, length: this.#length, columns: takeRows(this.#columns, this.#length) };
    this.#length = 0;
    this.#names = new Map();
    return batch;
  }

  #intern(name: string, column: NameColumn, value: string): number {
    let known = this.#names.get(name);
    if (!known) this.#names.set(name, (known = new Map(column.values.map((text, index) => [text, index]))));
    let index = known.get(value);
    if (index === undefined) {
      index = known.size;
      known.set(value, index);
      (column.values as string[]).push(value);
    }
    return index;
  }
}

function emptyColumns(): PhaseColumns {
  const columns = Object.fromEntries(
    COLUMN_NAMES.map((name) => [name, newColumn(columnSpec(name).type, MESSAGE_ROWS)]),
  );
  takeRows(columns as PhaseColumns, MESSAGE_ROWS);
  return columns as PhaseColumns;
}

/** Copies the first rows and makes them empty again: most messages are far from full. */
function takeRows(columns: PhaseColumns, length: number): PhaseColumns {
  const entries = COLUMN_NAMES.map((name) => {
    const column = columns[name];
    const { absent } = columnSpec(name);
    if (column instanceof Int64Column) {
      const taken = new Int64Column(column.words.slice(0, 2 * length));
      // Both words of an int64 at once: right for the -1 and 0 that columns default to.
      column.words.fill((absent ?? 0) as number, 0, 2 * length);
      return [name, taken];
    }
    if ('indices' in column) {
      const taken = { indices: column.indices.slice(0, length), values: [...column.values] };
      column.indices.fill(0, 0, length);
      // Index 0 stands for the absent name.
      (column.values as string[]).splice(0, Number.POSITIVE_INFINITY, (absent ?? '') as string);
      return [name, taken];
    }
    const taken = column.slice(0, length);
    column.fill((absent ?? 0) as number, 0, length);
    return [name, taken];
  });
  return Object.fromEntries(entries) as PhaseColumns;
}
