import { type Data, Field, makeData, RecordBatch, Schema, Struct, Table, tableToIPC } from 'apache-arrow';
import { readBatch } from './arrow-batch.js';
import { ArrowCache } from './arrow-cache.js';
import { fromArrow, toArrow } from './arrow-columns.js';
import { headerOf, type StreamMessage, splitStream } from './arrow-stream.js';
import { COLUMN_NAMES, type ColumnName } from './columns.js';
import { PicketError } from './errors.js';
import { JobMeta } from './job-meta.js';
import { MAX_MESSAGE_BYTES } from './limits.js';
import type { PhaseBatch, PhaseColumns } from './phase-batch.js';
import { checkSchema, SCHEMA_KEY } from './schema-version.js';

/*
 * A message is an Arrow IPC stream of one record batch. Schema metadata:
 *   picket.schema  "phases/1"; a reader refuses another major version and skips columns that it does not know
 *   picket.job     JSON of JobMeta
 */
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

/**
 * Decodes a message, columns as views of its bytes where they have the documented types. What messages have in common,
 * `meta` above all, is shared by the batches: they must not be written to.
 * Throws `bad_input` or `unsupported_version`.
 */
export function decodePhases(bytes: Uint8Array): PhaseBatch {
  try {
    const [first, ...messages] = splitStream(bytes);
    const { schema, meta, positions } = heads.get(first.bytes, () => readHead(first));
    const { length, children } = readBatch(schema, messages);
    const columns: Partial<Record<ColumnName, PhaseColumns[ColumnName]>> = {};
    for (const [i, name] of COLUMN_NAMES.entries())
      columns[name] = fromArrow(name, children[positions[i] as number], length);
    return { meta, length, columns: columns as PhaseColumns };
  } catch (cause) {
    if (cause instanceof PicketError) throw cause;
    throw new PicketError('bad_input', `not an Arrow IPC stream (${(cause as Error).message})`, {}, { cause });
  }
}

/** What the schema message alone says: all messages of a host say the same for hours. */
interface Head {
  readonly schema: Schema;
  readonly meta: JobMeta;
  /** Where each of COLUMN_NAMES is in the schema; -1: it is absent. */
  readonly positions: readonly number[];
}

const heads = new ArrowCache<Head>(8 * 1024 * 1024, 256 * 1024);

function readHead(message: StreamMessage): Head {
  const schema = headerOf(message) as Schema;
  checkSchema(schema.metadata.get(SCHEMA_KEY), SCHEMA_NAME, SCHEMA_MAJOR);
  const meta = frozen(readMeta(schema.metadata.get(JOB_KEY)));
  const positions = COLUMN_NAMES.map((name) => schema.fields.findLastIndex((field) => field.name === name));
  return { schema, meta, positions };
}

function frozen<Value>(value: Value): Value {
  if (typeof value === 'object') for (const part of Object.values(Object.freeze(value) ?? {})) frozen(part);
  return value;
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
