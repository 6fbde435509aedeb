import { appendFileSync, readdirSync, readFileSync, rmSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { decodeFrame, encodeFrame, frameAt } from '../bus/embedded/frame.js';
import { makeFolder } from '../bus/folder.js';
import type { Message } from './message.js';

const NAME = /^\d{12}\.spool$/;
/** Of the first file; lower numbers are for what has to go before it. */
const FIRST = 500_000_000_000;

interface SpoolFile {
  readonly number: number;
  bytes: number;
  /** Unknown (-1) for files of an earlier process until they are read. */
  messages: number;
  rows: number;
}

export interface SpoolOptions {
  readonly dir: string;
  /** The oldest messages are dropped beyond it. */
  readonly maxBytes: number;
  /** A file this large is finished. At most a quarter of maxBytes. */
  readonly fileBytes?: number;
  /** Is told of what was dropped for want of room or found damaged. */
  readonly onDropped: (messages: number, rows: number) => void;
  /** Adds to a file, new or not; by default as the system does. */
  readonly append?: (path: string, bytes: Uint8Array) => void;
}

const MIB = 1024 * 1024;

/**
 * Messages on disk while the sink is away, in order and bounded. A file is read as a whole and removed once all of it
 * was sent: after a crash it is sent again, which changes nothing, as rows replace those of the same identity.
 */
export class Spool {
  readonly #options: SpoolOptions;
  readonly #fileBytes: number;
  /** In order. */
  readonly #files: SpoolFile[];
  /** Number of the file that `first` gave out: it is not dropped meanwhile. */
  #reading = -1;

  /** Opens or makes the folder; what an earlier process left is sent first. */
  constructor(options: SpoolOptions) {
    this.#options = options;
    this.#fileBytes = Math.min(options.fileBytes ?? 8 * MIB, Math.floor(options.maxBytes / 4));
    makeFolder(options.dir);
    this.#files = readdirSync(options.dir)
      .filter((name) => NAME.test(name))
      .sort()
      .map((name) => ({
        number: Number.parseInt(name, 10),
        bytes: statSync(join(options.dir, name)).size,
        messages: -1,
        rows: -1,
      }));
  }

  get empty(): boolean {
    return this.#files.length === 0;
  }

  get bytes(): number {
    return this.#files.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Puts messages behind all others. Throws what the disk says. */
  append(messages: readonly Message[]): void {
    for (const message of messages) {
      const frame = frameOf(message);
      const last = this.#files.at(-1);
      const full = !last || last.messages < 0 || last.number === this.#reading || last.bytes >= this.#fileBytes;
      const file = full ? { number: (last?.number ?? FIRST) + 1, bytes: 0, messages: 0, rows: 0 } : last;
      this.#addTo(file, frame);
      if (full) this.#files.push(file);
      file.bytes += frame.length;
      file.messages++;
      file.rows += message.rows;
    }
    this.#makeRoom();
  }

  /** Puts messages before all others. Throws what the disk says. */
  prepend(messages: readonly Message[]): void {
    if (messages.length === 0) return;
    const frames = Buffer.concat(messages.map(frameOf));
    const number = (this.#files[0]?.number ?? FIRST) - 1;
    this.#addTo({ number, bytes: 0 }, frames);
    this.#files.unshift({ number, bytes: frames.length, messages: messages.length, rows: rowsIn(messages) });
    this.#makeRoom();
  }

  /** The oldest messages, as many as one file holds; they stay until `removeFirst`. */
  first(): Message[] {
    const file = this.#files[0];
    if (!file) return [];
    this.#reading = file.number;
    const { messages, damaged } = this.#read(file.number);
    if (damaged)
      this.#options.onDropped(Math.max(1, file.messages - messages.length), Math.max(0, file.rows - rowsIn(messages)));
    return messages;
  }

  /** What `first` gave was sent. */
  removeFirst(): void {
    const file = this.#files.shift();
    this.#reading = -1;
    if (file) rmSync(this.#path(file.number), { force: true });
  }

  #makeRoom(): void {
    while (this.bytes > this.#options.maxBytes && this.#files.length > 1) {
      const at = this.#files[0]?.number === this.#reading ? 1 : 0;
      const [file] = this.#files.splice(at, 1) as [SpoolFile];
      if (file.messages < 0) {
        const { messages } = this.#read(file.number);
        file.messages = messages.length;
        file.rows = rowsIn(messages);
      }
      rmSync(this.#path(file.number), { force: true });
      this.#options.onDropped(file.messages, file.rows);
    }
  }

  /** A full disk takes a part of a frame, behind which nothing would be read: it is cut off. */
  #addTo({ number, bytes }: Pick<SpoolFile, 'number' | 'bytes'>, frames: Buffer): void {
    const { append = appendFileSync } = this.#options;
    const path = this.#path(number);
    try {
      append(path, frames);
    } catch (error) {
      if (bytes === 0) rmSync(path, { force: true });
      else truncateSync(path, bytes);
      throw error;
    }
  }

  /** A crash may have cut the last frame, and a disk may fail. */
  #read(number: number): { messages: Message[]; damaged: boolean } {
    let buffer: Buffer;
    try {
      buffer = readFileSync(this.#path(number));
    } catch {
      return { messages: [], damaged: true };
    }
    const messages: Message[] = [];
    let at = 0;
    while (at < buffer.length) {
      const frame = frameAt(buffer, at);
      if (frame.state !== 'whole') return { messages, damaged: true };
      const { key, value, headers } = decodeFrame(buffer, at);
      messages.push({ topic: headers?.topic ?? '', key, value, rows: Number(headers?.rows) });
      at += frame.bytes;
    }
    return { messages, damaged: false };
  }

  #path(number: number): string {
    return join(this.#options.dir, `${String(number).padStart(12, '0')}.spool`);
  }
}

const rowsIn = (messages: readonly Message[]): number => messages.reduce((sum, { rows }) => sum + rows, 0);

const frameOf = ({ topic, key, value, rows }: Message): Buffer =>
  encodeFrame({ key, value, headers: { topic, rows: String(rows) } }, 0n, 0);
