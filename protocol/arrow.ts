import {
  Bool,
  type Data,
  type DataType,
  Dictionary,
  Field,
  Float32,
  Int32,
  Int64,
  makeData,
  makeVector,
  RecordBatch,
  RecordBatchReader,
  Schema,
  Struct,
  Table,
  tableToIPC,
  Uint8,
  Uint32,
  Utf8,
  type Vector,
  vectorFromArray,
} from 'apache-arrow';
import { COLUMN_NAMES, type ColumnName, type ColumnType, columnSpec } from './columns.js';
import { PicketError } from './errors.js';
import { Int64Column } from './int64.js';
import { JobMeta } from './job-meta.js';
import { MAX_MESSAGE_BYTES, MAX_MESSAGE_ROWS } from './limits.js';
import { type NameColumn, newColumn, type PhaseBatch, type PhaseColumns } from './phase-batch.js';

/*
 * A message is an Arrow IPC stream of one record batch. Schema metadata:
 *   picket.schema  "phases/1"; a reader refuses another major version and skips columns that it does not know
 *   picket.job     JSON of JobMeta
 */
const SCHEMA_KEY = 'picket.schema';
const JOB_KEY = 'picket.job';
const SCHEMA_NAME = 'phases';
const SCHEMA_MAJOR = 1;

/** Encodes a batch. Throws `too_large` above MAX_MESSAGE_BYTES: the caller must split or refuse, never retry. */
export function encodePhases(batch: PhaseBatch): Uint8Array {
  const fields: Field[] = [];
  const children: Data[] = [];
  for (const name of COLUMN_NAMES) {
    const data = toArrow(name, batch);
    if (!data) continue;
    fields.push(new Field(name, data.type, false));
    children.push(data);
  }
  const metadata = new Map([
    [SCHEMA_KEY, `${SCHEMA_NAME}/${SCHEMA_MAJOR}`],
    [JOB_KEY, JSON.stringify(batch.meta)],
  ]);
  const schema = new Schema(fields, metadata);
  const struct = makeData({ type: new Struct(fields), length: batch.length, nullCount: 0, children });
  const bytes = tableToIPC(new Table(schema, new RecordBatch(schema, struct)), 'stream');
  if (bytes.length > MAX_MESSAGE_BYTES)
    throw new PicketError('too_large', `message of ${bytes.length} bytes exceeds ${MAX_MESSAGE_BYTES}`, {
      remedy: 'send fewer rows a message',
    });
  return bytes;
}

/** Decodes a message without copying where the column has the documented type. Throws `bad_input` or `unsupported_version`. */
export function decodePhases(bytes: Uint8Array): PhaseBatch {
  const { schema, batch } = readStream(bytes);
  checkVersion(schema.metadata.get(SCHEMA_KEY));
  const meta = readMeta(schema.metadata.get(JOB_KEY));
  const length = batch?.numRows ?? 0;
  // The record batch's own children: asking it for vectors costs more than decoding them.
  const children = new Map(schema.fields.map(({ name }, i) => [name, batch?.data.children[i]]));
  const columns = Object.fromEntries(
    COLUMN_NAMES.map((name) => [name, fromArrow(name, children.get(name), length)]),
  ) as PhaseColumns;
  return { meta, length, columns };
}

function readStream(bytes: Uint8Array): { schema: Schema; batch: RecordBatch | undefined } {
  try {
    const reader = RecordBatchReader.from(bytes).open();
    const { schema } = reader;
    const batches = [...reader];
    if (batches.length > 1) throw new Error(`expected one record batch, found ${batches.length}`);
    return { schema, batch: batches[0] };
  } catch (cause) {
    throw new PicketError('bad_input', `not an Arrow IPC stream (${(cause as Error).message})`, {}, { cause });
  }
}

function checkVersion(version: string | undefined): void {
  const [name, major] = (version ?? '').split('/');
  if (name !== SCHEMA_NAME)
    throw new PicketError(
      'bad_input',
      `schema "${version ?? ''}" where "${SCHEMA_NAME}/${SCHEMA_MAJOR}" was expected`,
      {
        field: SCHEMA_KEY,
      },
    );
  if (Number.parseInt(major ?? '', 10) !== SCHEMA_MAJOR)
    throw new PicketError('unsupported_version', `schema "${version}" is not supported`, {
      field: SCHEMA_KEY,
      remedy: `this reader knows ${SCHEMA_NAME}/${SCHEMA_MAJOR}; upgrade the older side`,
    });
}

function readMeta(text: string | undefined): JobMeta {
  let value: unknown;
  try {
    value = JSON.parse(text ?? '');
  } catch (cause) {
    throw new PicketError('bad_input', 'job facts are not JSON', { field: JOB_KEY }, { cause });
  }
  const parsed = JobMeta.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw new PicketError('bad_input', issue?.message ?? 'invalid', {
    field: `${JOB_KEY}.${issue?.path.join('.') ?? ''}`,
  });
}

const ARROW_TYPES: Record<Exclude<ColumnType, 'name'>, DataType> = {
  int32: new Int32(),
  int64: new Int64(),
  uint8: new Uint8(),
  uint32: new Uint32(),
  float32: new Float32(),
  bool: new Bool(),
};

function toArrow(name: ColumnName, batch: PhaseBatch): Data | undefined {
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

function fromArrow(name: ColumnName, data: Data | undefined, length: number): PhaseColumns[ColumnName] {
  const { type, absent } = columnSpec(name);
  if (!data) {
    if (absent === null) throw new PicketError('bad_input', 'required column is missing', { field: name });
    return filled(type, length, absent);
  }
  if (data.nullCount === 0 && data.offset === 0) {
    const direct = withoutConversion(type, data, length);
    if (direct) return direct;
  }
  return converted(name, type, absent, makeVector(data), length);
}

/** The column's own memory, where another writer has not chosen another type for it. */
function withoutConversion(type: ColumnType, data: Data, length: number): PhaseColumns[ColumnName] | undefined {
  const { values } = data;
  if (type === 'name') {
    if (!(data.dictionary && values instanceof Int32Array)) return undefined;
    return { indices: values, values: Array.from(data.dictionary, (value) => String(value ?? '')) };
  }
  if (data.typeId !== ARROW_TYPES[type].typeId) return undefined;
  if (type === 'bool') return unpacked(values as Uint8Array, length);
  if (type === 'int64') return values instanceof BigInt64Array ? Int64Column.over(values) : undefined;
  return values.constructor === ARRAYS[type] ? (values as Int32Array) : undefined;
}

const ARRAYS = { int32: Int32Array, uint8: Uint8Array, uint32: Uint32Array, float32: Float32Array } as const;

function unpacked(bits: Uint8Array, length: number): Uint8Array {
  const column = new Uint8Array(length);
  for (let i = 0; i < length; i++) column[i] = ((bits[i >> 3] as number) >> (i & 7)) & 1;
  return column;
}

/** Columns of one value, as long as any message needed yet: shared, since nobody writes into a decoded batch. */
const constants = new Map<string, PhaseColumns[ColumnName]>();

function filled(type: ColumnType, length: number, absent: number | string): PhaseColumns[ColumnName] {
  const key = `${type} ${absent}`;
  let column = constants.get(key);
  if (!column || lengthOf(column) < length) {
    column = newFilled(type, Math.max(length, MAX_MESSAGE_ROWS), absent);
    constants.set(key, column);
  }
  if (column instanceof Int64Column) return new Int64Column(column.words.subarray(0, 2 * length));
  if ('indices' in column) return { indices: column.indices.subarray(0, length), values: column.values };
  return column.subarray(0, length);
}

const lengthOf = (column: PhaseColumns[ColumnName]): number =>
  'indices' in column ? column.indices.length : column.length;

function newFilled(type: ColumnType, length: number, absent: number | string): PhaseColumns[ColumnName] {
  if (type === 'name') return { indices: new Int32Array(length), values: [absent as string] };
  const column = newColumn(type, length);
  if (absent === 0) return column;
  // Both words at once: right for -1, the only other value that the table uses.
  if (column instanceof Int64Column) column.words.fill(absent as number);
  else (column as Int32Array).fill(absent as number);
  return column;
}

/** Columns that another writer gave another width or nulls: value by value, slower but right. */
function converted(
  name: ColumnName,
  type: ColumnType,
  absent: number | string | null,
  vector: Vector,
  length: number,
): PhaseColumns[ColumnName] {
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
    } else if (column instanceof Int64Column) column.set(i, integer(name, value));
    else (column as Int32Array)[i] = Number(value);
  }
  return column;
}

function integer(name: ColumnName, value: unknown): bigint {
  try {
    return BigInt(value as number);
  } catch (cause) {
    throw new PicketError('bad_input', `${String(value)} is not an integer`, { field: name }, { cause });
  }
}
