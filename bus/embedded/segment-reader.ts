import { type FileHandle, open } from 'node:fs/promises';
import { frameAt, frameOffset } from './frame.js';
import { segmentPath } from './segments.js';

/** Frames of a segment that are whole, as one read found them. */
export interface Frames {
  readonly buffer: Buffer;
  /** Where each begins in the buffer. */
  readonly starts: readonly number[];
  /** What follows the last of them: nothing yet, the beginning of one, or bytes that are none. */
  readonly then: 'more' | 'end' | 'partial' | 'bad';
}

const CHUNK_BYTES = 1024 * 1024;

/** Reads one segment file forwards, also while it grows. */
export class SegmentReader {
  readonly base: bigint;
  readonly path: string;
  readonly #file: FileHandle;
  #position = 0;
  #next: bigint;

  private constructor(path: string, base: bigint, file: FileHandle) {
    this.path = path;
    this.base = base;
    this.#next = base;
    this.#file = file;
  }

  static async open(dir: string, base: bigint): Promise<SegmentReader> {
    const path = segmentPath(dir, base);
    return new SegmentReader(path, base, await open(path, 'r'));
  }

  /** Where the next frame begins, in bytes. */
  get position(): number {
    return this.#position;
  }

  /** At least the offset of the next frame. */
  get next(): bigint {
    return this.#next;
  }

  /** Goes on at a frame that is known to begin at `position`. */
  skipTo(position: number, next: bigint): void {
    this.#position = position;
    this.#next = next;
  }

  /** The next whole frames, about a mebibyte of them and at least one where there is one. */
  async read(): Promise<Frames> {
    for (let size = CHUNK_BYTES; ; ) {
      const frames = await this.#scan(size);
      if (typeof frames !== 'number') return frames;
      size = frames;
    }
  }

  async close(): Promise<void> {
    await this.#file.close();
  }

  /** Whole frames of the next `size` bytes, or the size that the first of them needs. */
  async #scan(size: number): Promise<Frames | number> {
    const { bytesRead, buffer: space } = await this.#file.read(Buffer.allocUnsafe(size), 0, size, this.#position);
    const buffer = space.subarray(0, bytesRead);
    const full = bytesRead === size;
    const starts: number[] = [];
    let at = 0;
    while (at < buffer.length) {
      const frame = frameAt(buffer, at);
      if (frame.state === 'bad' || (frame.state === 'whole' && frameOffset(buffer, at) < this.#next))
        return this.#advance(buffer, starts, at, 'bad');
      if (frame.state === 'partial') {
        if (full && starts.length === 0) return frame.bytes;
        return this.#advance(buffer, starts, at, full ? 'more' : 'partial');
      }
      starts.push(at);
      at += frame.bytes;
    }
    return this.#advance(buffer, starts, at, full ? 'more' : 'end');
  }

  #advance(buffer: Buffer, starts: readonly number[], at: number, then: Frames['then']): Frames {
    const last = starts.at(-1);
    if (last !== undefined) this.#next = frameOffset(buffer, last) + 1n;
    this.#position += at;
    return { buffer, starts, then };
  }
}
