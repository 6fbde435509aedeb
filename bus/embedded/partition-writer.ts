import { existsSync } from 'node:fs';
import { type FileHandle, open, rm, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { PicketError } from '../../protocol/errors.js';
import type { BusMessage } from '../bus.js';
import type { BusLog } from '../log.js';
import { FileLock } from './file-lock.js';
import { encodeFrame } from './frame.js';
import { SegmentReader } from './segment-reader.js';
import { segmentBases, segmentPath, syncDir } from './segments.js';

export interface WriterOptions {
  readonly fsync: 'always' | 'never';
  readonly segmentBytes: number;
  readonly retentionBytes: number;
  readonly log: BusLog;
}

/** The segment that is written to, and where the next record goes. */
interface Tail {
  readonly base: bigint;
  readonly file: FileHandle;
  bytes: number;
  next: bigint;
}

interface Append {
  readonly messages: readonly BusMessage[];
  readonly done: () => void;
  readonly failed: (error: Error) => void;
}

const LOCK_RETRY_MS = 2;
const LOCK_DEADLINE_MS = 10_000;

/**
 * Appends to one partition. Each append holds the partition's lock, so that writers in several processes take turns; what
 * another process wrote meanwhile, or left torn when it died, is found by the size of the file. Appends that come while
 * one is written go out together in the next: one write and one sync for all of them.
 */
export class PartitionWriter {
  readonly #dir: string;
  readonly #options: WriterOptions;
  readonly #lock: FileLock;
  #queue: Append[] = [];
  #draining: Promise<void> | undefined;
  #tail: Tail | undefined;
  #contended = false;

  constructor(dir: string, options: WriterOptions) {
    this.#dir = dir;
    this.#options = options;
    this.#lock = FileLock.open(join(dir, 'writer.lock'));
  }

  /** Resolves when the messages are in the log as `fsync` says. Throws `bus_unavailable` where they may not be. */
  append(messages: readonly BusMessage[]): Promise<void> {
    return new Promise((done, failed) => {
      this.#queue.push({ messages, done, failed });
      this.#draining ??= this.#drain();
    });
  }

  async close(): Promise<void> {
    await this.#draining;
    await this.#forgetTail();
    this.#lock.close();
  }

  async #drain(): Promise<void> {
    while (this.#queue.length > 0) {
      const appends = this.#queue;
      this.#queue = [];
      try {
        await this.#write(appends.flatMap((append) => append.messages));
        for (const append of appends) append.done();
      } catch (error) {
        // Whole records that reached the file stay: a reader may have them already. The tail is looked at anew.
        await this.#forgetTail();
        for (const append of appends) append.failed(unavailable(this.#dir, error));
      }
    }
    // Here and not in a later microtask: an append in between would wait for a drain that is over.
    this.#draining = undefined;
  }

  async #write(messages: readonly BusMessage[]): Promise<void> {
    await this.#acquire();
    try {
      let tail = await this.#currentTail();
      if (tail.bytes >= this.#options.segmentBytes) tail = await this.#roll(tail);
      const now = Date.now();
      const frames = Buffer.concat(messages.map((message, i) => encodeFrame(message, tail.next + BigInt(i), now)));
      await writeAll(tail.file, frames, tail.bytes);
      if (this.#options.fsync === 'always') await tail.file.datasync();
      tail.bytes += frames.length;
      tail.next += BigInt(messages.length);
    } finally {
      this.#lock.unlock();
    }
  }

  async #acquire(): Promise<void> {
    // Who had to wait gives the other a turn first: the lock itself knows no queue.
    if (this.#contended) await sleep(LOCK_RETRY_MS);
    this.#contended = false;
    const deadline = performance.now() + LOCK_DEADLINE_MS;
    while (!this.#lock.tryLock()) {
      this.#contended = true;
      if (performance.now() > deadline)
        throw new Error(`another process has held writer.lock for ${LOCK_DEADLINE_MS} ms`);
      await sleep(LOCK_RETRY_MS);
    }
  }

  async #currentTail(): Promise<Tail> {
    const tail = this.#tail;
    const { size, nlink } = tail ? await tail.file.stat() : { size: 0, nlink: 0 };
    if (tail && nlink > 0 && size === tail.bytes && !this.#hasRolled(tail)) return tail;
    await this.#forgetTail();
    const base = (await segmentBases(this.#dir)).at(-1);
    // Whole records are never cut: what we wrote ourselves, in a file that is still there, need not be read again.
    const known = nlink > 0 && tail?.base === base ? tail : undefined;
    this.#tail = base === undefined ? await this.#create(0n) : await this.#recover(base, known);
    return this.#tail;
  }

  /** Another process has gone on in a new segment. */
  #hasRolled(tail: Tail): boolean {
    return tail.next !== tail.base && existsSync(segmentPath(this.#dir, tail.next));
  }

  /** Finds the end of the last segment and cuts off what a writer that died left unfinished behind it. */
  async #recover(base: bigint, known: Tail | undefined): Promise<Tail> {
    const reader = await SegmentReader.open(this.#dir, base);
    if (known) reader.skipTo(known.bytes, known.next);
    let frames = await reader.read();
    while (frames.then === 'more') frames = await reader.read();
    await reader.close();
    const { size } = await stat(reader.path);
    if (size > reader.position) {
      await truncate(reader.path, reader.position);
      const torn = `${size - reader.position} bytes of an unfinished write at byte ${reader.position}`;
      this.#options.log('warn', `${reader.path}: cut off ${torn}`);
    }
    return { base, file: await open(reader.path, 'r+'), bytes: reader.position, next: reader.next };
  }

  async #roll(tail: Tail): Promise<Tail> {
    // Without a sync at each append the finished segment gets its only one here.
    await tail.file.datasync();
    await this.#forgetTail();
    this.#tail = await this.#create(tail.next);
    await this.#retain();
    return this.#tail;
  }

  async #create(base: bigint): Promise<Tail> {
    const file = await open(segmentPath(this.#dir, base), 'wx');
    await syncDir(this.#dir);
    return { base, file, bytes: 0, next: base };
  }

  /** Removes the oldest segments while the partition is over its size; never the one that is written to. */
  async #retain(): Promise<void> {
    const bases = await segmentBases(this.#dir);
    const sizes = await Promise.all(bases.map(async (base) => (await stat(segmentPath(this.#dir, base))).size));
    let total = sizes.reduce((sum, size) => sum + size, 0);
    for (let i = 0; i < bases.length - 1 && total > this.#options.retentionBytes; i++) {
      await rm(segmentPath(this.#dir, bases[i] as bigint));
      total -= sizes[i] as number;
    }
  }

  async #forgetTail(): Promise<void> {
    const tail = this.#tail;
    this.#tail = undefined;
    await tail?.file.close().catch(() => {});
  }
}

async function writeAll(file: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, position + done);
    done += bytesWritten;
  }
}

function unavailable(dir: string, error: unknown): PicketError {
  const problem = `the log cannot be written: ${(error as Error).message}`;
  return new PicketError(
    'bus_unavailable',
    problem,
    { file: dir, remedy: 'check the disk and its free space' },
    { cause: error as Error },
  );
}
