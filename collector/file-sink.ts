import { readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder } from '../bus/folder.js';
import { TOPICS } from '../protocol/topics.js';
import type { Message, Sink } from './message.js';

const SUFFIX = '.arrows';

/**
 * Writes each message of rows as a file of its own, an Arrow IPC stream that pandas, DuckDB and others read as it is:
 * `<job>-<milliseconds since the epoch>-<number>.arrows`. The newest heartbeat is in collector.json.
 */
export class FileSink implements Sink {
  readonly name = 'files';
  readonly #dir: string;
  readonly #maxBytes: number;
  readonly #nowMs: () => number;
  #number = 0;
  /** Files in the folder, oldest first; undefined before the first look. */
  #files: { name: string; bytes: number }[] | undefined;

  /** @param maxBytes the oldest files are deleted beyond it */
  constructor(dir: string, maxBytes: number, nowMs: () => number) {
    this.#dir = dir;
    this.#maxBytes = maxBytes;
    this.#nowMs = nowMs;
  }

  async send(messages: readonly Message[]): Promise<void> {
    makeFolder(this.#dir);
    this.#files ??= await this.#look();
    for (const message of messages) {
      if (message.topic === TOPICS.collectors) await this.#write('collector.json', message.value);
      else {
        const name = `${fileName(message.key)}-${this.#nowMs()}-${this.#number++}${SUFFIX}`;
        await this.#write(name, message.value);
        this.#files.push({ name, bytes: message.value.length });
      }
    }
    await this.#makeRoom(this.#files);
  }

  async close(): Promise<void> {}

  /** A reader never sees half a file. */
  async #write(name: string, value: Uint8Array): Promise<void> {
    const draft = join(this.#dir, `.${name}.draft`);
    await writeFile(draft, value);
    await rename(draft, join(this.#dir, name));
  }

  async #look(): Promise<{ name: string; bytes: number }[]> {
    const names = (await readdir(this.#dir)).filter((name) => name.endsWith(SUFFIX) && !name.startsWith('.'));
    const files = await Promise.all(names.map(async (name) => ({ name, ...(await stat(join(this.#dir, name))) })));
    return files.sort((a, b) => a.mtimeMs - b.mtimeMs).map(({ name, size }) => ({ name, bytes: size }));
  }

  async #makeRoom(files: { name: string; bytes: number }[]): Promise<void> {
    let total = files.reduce((sum, { bytes }) => sum + bytes, 0);
    while (total > this.#maxBytes && files.length > 1) {
      const { name, bytes } = files.shift() as { name: string; bytes: number };
      await rm(join(this.#dir, name), { force: true });
      total -= bytes;
    }
  }
}

const fileName = (job: string): string => job.replace(/[^\w.-]/g, '_').slice(0, 100);
