import {
  Bool,
  Dictionary,
  Field,
  Int32,
  makeData,
  makeVector,
  RecordBatch,
  Schema,
  Struct,
  Table,
  tableFromIPC,
  tableToIPC,
  Utf8,
  type Vector,
  vectorFromArray,
} from 'apache-arrow';
import { PicketError } from './errors.js';
import { MAX_MESSAGE_BYTES, MAX_MESSAGE_ROWS } from './limits.js';
import { cleanName } from './names.js';
import type { SampleRow } from './sample.js';
import { checkSchema, SCHEMA_KEY } from './schema-version.js';

/*
 * A message of sample rows is an Arrow IPC stream of one record batch with the columns of SampleRow; schema metadata
 * `picket.schema` "samples/1". A reader skips columns that it does not know; those that are absent take their defaults.
 */
const SCHEMA_NAME = 'samples';
const SCHEMA_MAJOR = 1;

const NAMES = ['job', 'host', 'gpu', 'nic', 'link', 'name', 'unit'] as const;

/** Encodes at most MAX_MESSAGE_ROWS samples. Throws `too_large` above that, or above MAX_MESSAGE_BYTES. */
export function encodeSamples(samples: readonly SampleRow[]): Uint8Array {
  if (samples.length > MAX_MESSAGE_ROWS) throw tooLarge(`${samples.length} samples exceed ${MAX_MESSAGE_ROWS}`);
  const columns: Record<string, Vector> = {
    time_ns: makeVector(BigInt64Array.from(samples, ({ time_ns }) => time_ns)),
    rank: makeVector(Int32Array.from(samples, ({ rank }) => rank)),
    value: makeVector(Float64Array.from(samples, ({ value }) => value)),
    cumulative: vectorFromArray(
      samples.map(({ cumulative }) => cumulative),
      new Bool(),
    ),
  };
  for (const [id, name] of NAMES.entries())
    columns[name] = vectorFromArray(
      samples.map((sample) => sample[name] ?? ''),
      new Dictionary(new Utf8(), new Int32(), id),
    );
  const fields = Object.entries(columns).map(([name, { type }]) => new Field(name, type, false));
  const schema = new Schema(fields, new Map([[SCHEMA_KEY, `${SCHEMA_NAME}/${SCHEMA_MAJOR}`]]));
  const children = Object.values(columns).map(({ data: [data] }) => data as NonNullable<typeof data>);
  const struct = makeData({ type: new Struct(fields), length: samples.length, nullCount: 0, children });
  const bytes = tableToIPC(new Table(schema, new RecordBatch(schema, struct)), 'stream');
  if (bytes.length > MAX_MESSAGE_BYTES) throw tooLarge(`message of ${bytes.length} bytes exceeds ${MAX_MESSAGE_BYTES}`);
  return bytes;
}

const tooLarge = (problem: string): PicketError =>
  new PicketError('too_large', problem, { remedy: 'send fewer samples a message' });

/** Throws `bad_input` or `unsupported_version`. */
export function decodeSamples(bytes: Uint8Array): SampleRow[] {
  try {
    const table = tableFromIPC(bytes);
    checkSchema(table.schema.metadata.get(SCHEMA_KEY), SCHEMA_NAME, SCHEMA_MAJOR);
    const column = (name: string): Vector | null => table.getChild(name);
    for (const name of ['time_ns', 'name', 'value'])
      if (!column(name)) throw new PicketError('bad_input', 'the column is missing', { field: name });
    const names = NAMES.map((name) => [name, column(name)] as const);
    const [time, rank, value, cumulative] = ['time_ns', 'rank', 'value', 'cumulative'].map(column);
    return Array.from({ length: table.numRows }, (_, i) => ({
      ...(Object.fromEntries(names.map(([name, vector]) => [name, cleanName(String(vector?.get(i) ?? ''))])) as Record<
        (typeof NAMES)[number],
        string
      >),
      time_ns: BigInt(time?.get(i)),
      rank: Number(rank?.get(i) ?? -1),
      value: Number(value?.get(i)),
      cumulative: Boolean(cumulative?.get(i) ?? false),
    }));
  } catch (cause) {
    if (cause instanceof PicketError) throw cause;
    throw new PicketError('bad_input', `no samples in Arrow IPC (${(cause as Error).message})`, {}, { cause });
  }
}
