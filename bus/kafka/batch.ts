import type { KafkaMessage } from 'kafkajs';
import type { BusRecord } from '../bus.js';

/** A handler call gets at most so many records and about so many bytes: between two calls a rebalance can be joined. */
const SLICE_RECORDS = 32;
const SLICE_BYTES = 256 * 1024;

/** The records from `position` on, in slices. */
export function* slicesOf(messages: readonly KafkaMessage[], position: bigint): Generator<BusRecord[]> {
  let slice: BusRecord[] = [];
  let bytes = 0;
  for (const message of messages) {
    const record = recordOf(message);
    if (record.offset < position) continue;
    slice.push(record);
    bytes += record.value.byteLength;
    if (slice.length < SLICE_RECORDS && bytes < SLICE_BYTES) continue;
    yield slice;
    slice = [];
    bytes = 0;
  }
  if (slice.length > 0) yield slice;
}

function recordOf({ offset, key, value, headers }: KafkaMessage): BusRecord {
  const text = Object.entries(headers ?? {}).map(([name, header]) => [name, String(header ?? '')]);
  return {
    offset: BigInt(offset),
    key: key?.toString() ?? '',
    value: value ?? new Uint8Array(),
    headers: Object.fromEntries(text),
  };
}
