import { Int32, Int64, Schema, Table, tableToIPC, Utf8, type Vector, vectorFromArray } from 'apache-arrow';
import { newJobMeta } from '../../protocol/job-meta.js';

/** One row as another writer may send it: plain columns, changed as given. */
export function foreign(changed: Record<string, Vector | undefined>, version = 'phases/1'): Uint8Array {
  const columns: Record<string, Vector | undefined> = {
    rank: vectorFromArray([0], new Int32()),
    step: vectorFromArray([0n], new Int64()),
    phase: vectorFromArray(['forward'], new Utf8()),
    start_ns: vectorFromArray([1n], new Int64()),
    dur_ns: vectorFromArray([1n], new Int64()),
    ...changed,
  };
  const given = Object.entries(columns).filter((entry): entry is [string, Vector] => entry[1] !== undefined);
  return streamOf(new Table(Object.fromEntries(given)), version);
}

/** A table as a stream with the metadata that a message needs. */
export function streamOf(table: Table, version = 'phases/1'): Uint8Array {
  const metadata = new Map([
    ['picket.schema', version],
    ['picket.job', JSON.stringify(newJobMeta('job'))],
  ]);
  return tableToIPC(new Table(new Schema(table.schema.fields, metadata), table.batches), 'stream');
}

/** The same bytes at an offset of a larger buffer, as a bus hands them out. */
export function at(offset: number, bytes: Uint8Array): Uint8Array {
  const buffer = new Uint8Array(offset + bytes.length);
  buffer.set(bytes, offset);
  return buffer.subarray(offset);
}
