import { crc32 } from 'node:zlib';
import type { BusMessage, BusRecord } from '../bus.js';

/**
 * A record on disk, little-endian:
 *
 *     u32 length of the whole frame          u32 CRC-32 of what lies between it and the last field
 *     u64 offset                             i64 milliseconds since the epoch when it was appended
 *     u32 key bytes, key                     u16 headers, each: u16 name bytes, name, u32 value bytes, value
 *     u32 value bytes, value                 u32 length again: the last record is found from the end of the file
 */
const LENGTH_BYTES = 4;
const BODY_AT = 8;
const MIN_FRAME_BYTES = BODY_AT + 8 + 8 + 4 + 2 + 4 + LENGTH_BYTES;
/** Twice the largest message: a longer length is garbage, not a reason to read on. */
export const MAX_FRAME_BYTES = 16 * 1024 * 1024;

export function encodeFrame(message: BusMessage, offset: bigint, timestampMs: number): Buffer {
  const headers = Object.entries(message.headers ?? {}).map(([n, v]) => [Buffer.from(n), Buffer.from(v)] as const);
  const key = Buffer.from(message.key);
  const headerBytes = headers.reduce((sum, [name, value]) => sum + 6 + name.length + value.length, 0);
  const frame = Buffer.allocUnsafe(MIN_FRAME_BYTES + key.length + headerBytes + message.value.byteLength);
  let at = frame.writeUInt32LE(frame.length, 0) + 4;
  at = frame.writeBigUInt64LE(offset, at);
  at = frame.writeBigInt64LE(BigInt(timestampMs), at);
  at = frame.writeUInt32LE(key.length, at);
  at += key.copy(frame, at);
  at = frame.writeUInt16LE(headers.length, at);
  for (const [name, value] of headers) {
    at = frame.writeUInt16LE(name.length, at);
    at += name.copy(frame, at);
    at = frame.writeUInt32LE(value.length, at);
    at += value.copy(frame, at);
  }
  at = frame.writeUInt32LE(message.value.byteLength, at);
  frame.set(message.value, at);
  at += message.value.byteLength;
  frame.writeUInt32LE(frame.length, at);
  frame.writeUInt32LE(crc32(frame.subarray(BODY_AT, at)), 4);
  return frame;
}

/** What begins at `at`: a whole frame; the start of one that needs `bytes` in all; or no frame. */
export type FrameAt = { state: 'whole'; bytes: number } | { state: 'partial'; bytes: number } | { state: 'bad' };

export function frameAt(buffer: Buffer, at: number): FrameAt {
  if (buffer.length - at < LENGTH_BYTES) return { state: 'partial', bytes: MIN_FRAME_BYTES };
  const bytes = buffer.readUInt32LE(at);
  if (bytes < MIN_FRAME_BYTES || bytes > MAX_FRAME_BYTES) return { state: 'bad' };
  if (buffer.length - at < bytes) return { state: 'partial', bytes };
  const bodyEnd = at + bytes - LENGTH_BYTES;
  const intact = buffer.readUInt32LE(at + 4) === crc32(buffer.subarray(at + BODY_AT, bodyEnd));
  return intact && buffer.readUInt32LE(bodyEnd) === bytes ? { state: 'whole', bytes } : { state: 'bad' };
}

export const frameOffset = (buffer: Buffer, at: number): bigint => buffer.readBigUInt64LE(at + BODY_AT);

/** Reads a frame that `frameAt` found whole. The value is a view of the buffer. */
export function decodeFrame(buffer: Buffer, start: number): BusRecord {
  let at = start + BODY_AT + 16;
  const text = (bytes: number) => buffer.toString('utf8', at, (at += bytes));
  const u32 = () => buffer.readUInt32LE((at += 4) - 4);
  const u16 = () => buffer.readUInt16LE((at += 2) - 2);
  const key = text(u32());
  const headers: Record<string, string> = {};
  const count = u16();
  for (let i = 0; i < count; i++) {
    const name = text(u16());
    headers[name] = text(u32());
  }
  const valueBytes = u32();
  return { offset: frameOffset(buffer, start), key, headers, value: buffer.subarray(at, at + valueBytes) };
}
