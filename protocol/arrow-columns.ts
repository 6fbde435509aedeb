import {
  Bool,
  type Data,
  type DataType,
  Dictionary,
  Float32,
  Int32,
  Int64,
  makeData,
  makeVector,
  Type,
  Uint8,
  Uint32,
  Utf8,
  type Vector,
  vectorFromArray,
} from 'apache-arrow';
import { absentColumn } from './absent-columns.js';
import { COLUMN_NAMES, type ColumnName, type ColumnType, columnSpec } from './columns.js';
import { PicketError } from './errors.js';
import { Int64Column } from './int64.js';
import { type NameColumn, newColumn, type PhaseBatch, type PhaseColumns } from './phase-batch.js';

const ARROW_TYPES: Record<Exclude<ColumnType, 'name'>, DataType> = {
  int32: new Int32(),
  int64: new Int64(),
  uint8: new Uint8(),
  uint32: new Uint32(),
  float32: new Float32(),
  bool: new Bool(),
};

/** A column of a batch for Arrow; undefined: no row has it, and it can be left out. */
export function toArrow(name: ColumnName, batch: PhaseBatch): Data | undefined {
  const { type, optional, absent } = columnSpec(name);
  const column = batch.columns[name];
  const length = batch.length;
  if (optional && isAbsent(column, absent as number, length)) return undefined;
  if (type === 'name') return namesToArrow(column as NameColumn, length, COLUMN_NAMES.indexOf(name));
  if (type === 'bool') return boolsToArrow(column as Uint8Array, length);
  const data = column instanceof Int64Column ? column.asBigInt64Array() : (column as Int32Array);
  return makeData({ type: ARROW_TYPES[type] as Int32, length, nullCount: 0, data: data as Int32Array });
}

function isAbsent(column: PhaseColumns[ColumnName], absent: number, length: number): boolean {
  for (let i = 0; i < length; i++)
    if ((column instanceof Int64Column ? column.number(i) : (column as Int32Array)[i]) !== absent) return false;
  return true;
}

/** `id` names the dictionary within the message; Arrow's own counter would give the same rows other bytes each time. */
function namesToArrow(column: NameColumn, length: number, id: number): Data {
  const dictionary = vectorFromArray(column.values.length > 0 ? column.values : [''], new Utf8());
  const type = new Dictionary(new Utf8(), new Int32(), id);
  return makeData({ type, length, nullCount: 0, data: column.indices, dictionary });
}

function boolsToArrow(column: Uint8Array, length: number): Data {
  const bits = new Uint8Array((length + 7) >> 3);
  for (let i = 0; i < length; i++) if (column[i]) bits[i >> 3] = (bits[i >> 3] as number) | (1 << (i & 7));
  return makeData({ type: new Bool(), length, nullCount: 0, data: bits });
}

/**
 * A column of a batch from Arrow; undefined: the message lacks it. Views of the message's bytes have the documented type.
 * Throws `bad_input` where it is required and missing, holds less than `length` values, or they do not fit its type.
 */
export function fromArrow(name: ColumnName, data: Data | undefined, length: number): PhaseColumns[ColumnName] {
  const { type, absent } = columnSpec(name);
  if (!data || data.typeId === Type.Null) {
    if (absent === null) throw new PicketError('bad_input', 'required column is missing', { field: name });
    return absentColumn(type, length, absent);
  }
  if (!holds(data, length))
    throw new PicketError('bad_input', `a column of ${data.type} does not hold ${length} readable values`, {
      field: name,
    });
  return (data.nullCount === 0 && withoutConversion(name, data, length)) || converted(name, makeVector(data), length);
}

/** Whether a column has a readable type, and buffers as long as it says: Arrow cuts a view short where bytes are missing. */
function holds(data: Data, length: number): boolean {
  const validity = 8 * (data.nullBitmap?.length ?? 0);
  if (data.length !== length || (validity < length && (validity > 0 || data.nullCount > 0))) return false;
  switch (data.typeId) {
    case Type.Int:
    case Type.Float:
      return data.values.length >= length;
    case Type.Bool:
      return 8 * data.values.length >= length;
    case Type.Dictionary:
      if (data.values.length < length || data.values.BYTES_PER_ELEMENT > 4) return false;
      return !!data.dictionary?.data.every((part) => holds(part, part.length));
    case Type.Utf8:
    case Type.LargeUtf8:
      return length === 0 || data.valueOffsets.length > length;
    case Type.Utf8View:
      return data.values.length >= 16 * length;
    default:
      return false;
  }
}

/** The column's own memory, where another writer has not chosen another type for it. */
function withoutConversion(name: ColumnName, data: Data, length: number): PhaseColumns[ColumnName] | undefined {
  const { type } = columnSpec(name);
  const { values, dictionary } = data;
  if (type === 'name') {
    if (!dictionary) return undefined;
    const indices = values instanceof Int32Array ? values : Int32Array.from(values);
    const names = namesOf(dictionary);
    const last = greatest(indices);
    if (last >= names.length)
      throw new PicketError('bad_input', `a row has name ${last} of ${names.length}`, { field: name });
    return { indices, values: names };
  }
  if (data.typeId !== ARROW_TYPES[type].typeId) return undefined;
  if (type === 'bool') return unpacked(values, length);
  if (values.constructor !== ARROW_TYPES[type].ArrayType) return undefined;
  return type === 'int64' ? Int64Column.over(values) : values;
}

/** Of numbers without sign, so that a negative one is out of every range. */
function greatest(indices: Int32Array): number {
  let max = -1;
  for (let i = 0; i < indices.length; i++) if ((indices[i] as number) >>> 0 > max) max = (indices[i] as number) >>> 0;
  return max;
}

const knownNames = new WeakMap<Vector, readonly string[]>();

function namesOf(dictionary: Vector): readonly string[] {
  let names = knownNames.get(dictionary);
  if (!names) {
    names = Array.from(dictionary, (value) => String(value ?? ''));
    knownNames.set(dictionary, names);
  }
  return names;
}

function unpacked(bits: Uint8Array, length: number): Uint8Array {
  const column = new Uint8Array(length);
  for (let at = 0; 8 * at < length; at++) {
    const byte = bits[at] as number;
    // Most rows say no.
    if (byte === 0) continue;
    for (let i = 8 * at; i < Math.min(length, 8 * at + 8); i++) column[i] = (byte >> (i & 7)) & 1;
  }
  return column;
}

/** Columns that another writer gave another width or nulls: value by value, slower but right. */
function converted(name: ColumnName, vector: Vector, length: number): PhaseColumns[ColumnName] {
  const { type, absent } = columnSpec(name);
  const names = new Map<string, number>();
  const column =
    type === 'name' ? { indices: new Int32Array(length), values: [] as string[] } : newColumn(type, length);
  for (let i = 0; i < length; i++) {
    const value = vector.get(i) ?? absent;
    if (value === null) throw new PicketError('bad_input', `row ${i} has no value`, { field: name });
    if ('indices' in column) {
      const text = String(value);
      const id = names.get(text) ?? names.size;
      if (id === names.size) (column.values as string[]).push(text);
      names.set(text, id);
      column.indices[i] = id;
    } else if (!put(column, i, value))
      throw new PicketError('bad_input', `row ${i} has ${value}, which is no ${type}`, { field: name });
  }
  return column;
}

/** Whether a value fits the type of its column. */
function put(column: Exclude<PhaseColumns[ColumnName], NameColumn>, i: number, value: unknown): boolean {
  if (typeof value === 'string') return false;
  if (!(column instanceof Int64Column)) {
    column[i] = Number(value);
    return column instanceof Float32Array || column[i] === Number(value);
  }
  if (typeof value !== 'bigint' && !Number.isInteger(Number(value))) return false;
  const integer = BigInt(value as number);
  column.set(i, integer);
  return column.bigint(i) === integer;
}
