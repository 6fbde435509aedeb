import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { MAX_FRAME_BYTES } from './frame.js';

const SEGMENT_NAME = /^\d{20}\.log$/;

/** A segment is named after the offset of its first record, in 20 digits. */
export const segmentPath = (dir: string, base: bigint): string => join(dir, `${base.toString().padStart(20, '0')}.log`);

/** First offsets of a partition's segments, ascending. */
export async function segmentBases(dir: string): Promise<bigint[]> {
  const names = (await readdir(dir)).filter((name) => SEGMENT_NAME.test(name));
  return names.sort().map((name) => BigInt(name.slice(0, 20)));
}

/** The offset that comes next, by the last record's own length field; undefined while that record is being written. */
export async function endOffset(dir: string): Promise<bigint | undefined> {
  const base = (await segmentBases(dir)).at(-1);
  if (base === undefined) return 0n;
  const file = await open(segmentPath(dir, base), 'r');
  try {
    const { size } = await file.stat();
    if (size === 0) return base;
    const trailer = await readExactly(file, size - 4, 4);
    const length = trailer?.readUInt32LE(0) ?? 0;
    if (length < 16 || length > Math.min(size, MAX_FRAME_BYTES)) return undefined;
    const head = await readExactly(file, size - length, 16);
    return head?.readUInt32LE(0) === length ? head.readBigUInt64LE(8) + 1n : undefined;
  } finally {
    await file.close();
  }
}

type FileHandle = Awaited<ReturnType<typeof open>>;

async function readExactly(file: FileHandle, position: number, bytes: number): Promise<Buffer | undefined> {
  const { bytesRead, buffer } = await file.read(Buffer.alloc(bytes), 0, bytes, position);
  return bytesRead === bytes ? buffer : undefined;
}

/** Makes new and removed names of a folder survive a power cut. */
export async function syncDir(dir: string): Promise<void> {
  const handle = await open(dir, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
