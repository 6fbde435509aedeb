import type { ColumnType } from './columns.js';
import { Int64Column } from './int64.js';
import { MAX_MESSAGE_ROWS } from './limits.js';
import { newColumn, type PhaseColumns } from './phase-batch.js';

type Column = PhaseColumns[keyof PhaseColumns];

/** Columns of one value, as long as any message needed yet: shared, since nobody writes into a decoded batch. */
const constants = new Map<string, Column>();
const buffers = new WeakSet<ArrayBufferLike>();
/** Cut to the length of the last message: the next one mostly has as many rows. */
const lastCut = new Map<string, Column>();

/** What a message's batch has for a column that the message lacks. */
export function absentColumn(type: ColumnType, length: number, absent: number | string): Column {
  const key = `${type} ${absent}`;
  const last = lastCut.get(key);
  if (last && lengthOf(last) === length) return last;
  const cut = cutTo(length, constantColumn(key, type, length, absent));
  lastCut.set(key, cut);
  return cut;
}

function constantColumn(key: string, type: ColumnType, length: number, absent: number | string): Column {
  let column = constants.get(key);
  if (!column || lengthOf(column) < length) {
    column = newFilled(type, Math.max(length, MAX_MESSAGE_ROWS), absent);
    constants.set(key, column);
    buffers.add(bufferOf(column));
  }
  return column;
}

function cutTo(length: number, column: Column): Column {
  if (column instanceof Int64Column) return new Int64Column(column.words.subarray(0, 2 * length));
  if ('indices' in column) return { indices: column.indices.subarray(0, length), values: column.values };
  return column.subarray(0, length);
}

/** Whether no row of the message says anything in this column: what reads column by column can skip it. */
export const isAbsent = (column: Column): boolean => buffers.has(bufferOf(column));

function bufferOf(column: Column): ArrayBufferLike {
  if (column instanceof Int64Column) return column.words.buffer;
  return 'indices' in column ? column.indices.buffer : column.buffer;
}

const lengthOf = (column: Column): number => ('indices' in column ? column.indices.length : column.length);

function newFilled(type: ColumnType, length: number, absent: number | string): Column {
  if (type === 'name') return { indices: new Int32Array(length), values: [absent as string] };
  const column = newColumn(type, length);
  if (absent === 0) return column;
  // Both words at once: right for -1, the only other value that the table uses.
  if (column instanceof Int64Column) column.words.fill(absent as number);
  else (column as Int32Array).fill(absent as number);
  return column;
}
