import { MessageHeader, type Schema } from 'apache-arrow';
import { DictionaryBatch as DictionaryTable } from 'apache-arrow/fb/dictionary-batch';
import type { Field as FieldTable } from 'apache-arrow/fb/field';
import { Message as MessageTable } from 'apache-arrow/fb/message';
import { RecordBatch as BatchTable } from 'apache-arrow/fb/record-batch';
import { Schema as SchemaTable } from 'apache-arrow/fb/schema';
import { type DictionaryBatch, Message, type RecordBatch } from 'apache-arrow/ipc/metadata/message';
import { ByteBuffer } from 'flatbuffers';

/** One message of an Arrow IPC stream: a flatbuffer, and the body of buffers that it describes. */
export interface StreamMessage {
  readonly table: MessageTable;
  readonly type: MessageHeader;
  readonly metadata: Uint8Array;
  readonly body: Uint8Array;
  /** Metadata and body as they lie in the stream. */
  readonly bytes: Uint8Array;
}

/** Marks a message since Arrow 0.15; before, it began with its length. */
const CONTINUATION = -1;

/** The messages of an Arrow IPC stream, a schema first. Throws an Error where bytes are missing or it is no such stream. */
export function splitStream(bytes: Uint8Array): [StreamMessage, ...StreamMessage[]] {
  const messages: StreamMessage[] = [];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let at = 0;
  let closed = false;
  const skip = (length: number): number => {
    if (!(length >= 0 && length <= bytes.length - at))
      throw new Error(
        length >= 0
          ? `cut short: ${length} more bytes are missing at byte ${at}`
          : `no length of a message at byte ${at - 4}`,
      );
    at += length;
    return at - length;
  };
  while (at < bytes.length) {
    let length = view.getInt32(skip(4), true);
    if (length === CONTINUATION) length = view.getInt32(skip(4), true);
    if ((closed = length === 0)) break;
    const start = skip(length);
    const metadata = bytes.subarray(start, at);
    const table = MessageTable.getRootAsMessage(new ByteBuffer(metadata));
    const body = bytes.subarray(skip(Number(table.bodyLength())), at);
    messages.push({ table, type: table.headerType(), metadata, body, bytes: bytes.subarray(start, at) });
  }
  if (at < bytes.length) throw new Error(`${bytes.length - at} bytes after its end`);
  const [schema, ...rest] = messages;
  if (schema?.type !== MessageHeader.Schema) throw new Error('it does not begin with a schema');
  // A stream without rows must say that it ends: otherwise they may be cut off.
  if (!closed && rest.at(-1)?.type !== MessageHeader.RecordBatch) throw new Error('it ends before its record batch');
  return [schema, ...rest];
}

/** What a message says, by its type. Throws an Error where it cannot be read. */
export function headerOf({ table, type, metadata }: StreamMessage): Schema | DictionaryBatch | RecordBatch {
  checkCounts(table, type, metadata.length);
  return Message.decode(metadata).header();
}

/**
 * Arrow's decoder believes every count, where one flipped bit would keep it busy for hours: all elements together must
 * fit into the bytes that hold them.
 */
function checkCounts(table: MessageTable, type: MessageHeader, bytes: number): void {
  let elements = 0;
  const count = (more: number): number => {
    elements += more;
    if (more < 0 || elements > bytes) throw new Error(`${elements} elements in ${bytes} bytes`);
    return more;
  };
  const countField = (field: FieldTable | null): void => {
    if (!field) return;
    count(field.customMetadataLength());
    const children = count(field.childrenLength());
    for (let i = 0; i < children; i++) countField(field.children(i));
  };
  const countBatch = (batch: BatchTable): void => {
    count(batch.nodesLength());
    count(batch.buffersLength());
    const views = count(batch.variadicBufferCountsLength());
    for (let i = 0; i < views; i++) count(Number(batch.variadicBufferCounts(i)));
  };
  count(table.customMetadataLength());
  if (type === MessageHeader.RecordBatch) countBatch(table.header(new BatchTable()));
  else if (type === MessageHeader.DictionaryBatch) countBatch(table.header(new DictionaryTable()).data());
  else {
    const schema: SchemaTable = table.header(new SchemaTable());
    count(schema.customMetadataLength());
    const fields = count(schema.fieldsLength());
    for (let i = 0; i < fields; i++) countField(schema.fields(i));
  }
}
