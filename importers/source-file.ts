import { createReadStream } from 'node:fs';
import { type FileHandle, open, readdir, stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { pipeline } from 'node:stream';
import { constants, createGunzip, gunzipSync } from 'node:zlib';
import { PicketError } from '../protocol/errors.js';

const HEAD_BYTES = 64 * 1024;
const CHUNK_BYTES = 1024 * 1024;

/** A file to import. Gzip is recognised by its first bytes and unpacked on the way. */
export class SourceFile {
  readonly path: string;
  readonly name: string;
  /** Given by the user, not found in a folder: then it must be readable. */
  readonly named: boolean;
  /** On disk. */
  readonly size: number;
  /** The first bytes, unpacked; empty where that fails. */
  readonly head: Buffer;
  /** Why it failed. */
  readonly damage: PicketError | undefined;
  readonly #gzipped: boolean;
  readonly #onRead: (bytes: number) => void;

  private constructor(path: string, named: boolean, size: number, start: Buffer, onRead: (bytes: number) => void) {
    this.path = path;
    this.name = basename(path);
    this.named = named;
    this.size = size;
    this.#gzipped = start[0] === 0x1f && start[1] === 0x8b;
    this.#onRead = onRead;
    try {
      // The flush mode accepts input that goes on.
      this.head = this.#gzipped ? gunzipSync(start, { finishFlush: constants.Z_SYNC_FLUSH }) : start;
    } catch (cause) {
      this.head = Buffer.alloc(0);
      this.damage = fileError(cause, path, 0);
    }
  }

  static async at(path: string, named: boolean, onRead: (bytes: number) => void): Promise<SourceFile> {
    let handle: FileHandle | undefined;
    try {
      handle = await open(path);
      const { size } = await handle.stat();
      const start = Buffer.alloc(Math.min(size, HEAD_BYTES));
      await handle.read(start, 0, start.length, 0);
      return new SourceFile(path, named, size, start, onRead);
    } catch (cause) {
      throw fileError(cause, path);
    } finally {
      await handle?.close();
    }
  }

  /** The content, unpacked. Errors name the file and the byte on disk that was reached. */
  async *chunks(): AsyncGenerator<Buffer> {
    let reached = 0;
    const onRead = this.#onRead;
    const counted = async function* (source: AsyncIterable<Buffer>) {
      for await (const chunk of source) {
        reached += chunk.length;
        onRead(chunk.length);
        yield chunk;
      }
    };
    const raw = createReadStream(this.path, { highWaterMark: CHUNK_BYTES });
    try {
      if (this.#gzipped) yield* pipeline(raw, counted, createGunzip({ chunkSize: CHUNK_BYTES }), () => {});
      else yield* counted(raw);
    } catch (cause) {
      throw fileError(cause, this.path, reached);
    }
  }

  /** Bytes of the file as it is on disk; `end` is exclusive. */
  async slice(start: number, end = this.size): Promise<ArrayBuffer> {
    const handle = await open(this.path);
    try {
      const bytes = new Uint8Array(end - start);
      const { bytesRead } = await handle.read(bytes, 0, bytes.length, start);
      if (bytesRead < bytes.length)
        throw new PicketError('bad_input', `ends before byte ${end}`, { file: this.path, offset: start + bytesRead });
      this.#onRead(bytesRead);
      return bytes.buffer;
    } finally {
      await handle.close();
    }
  }
}

function fileError(cause: unknown, file: string, offset?: number): PicketError {
  if (cause instanceof PicketError) return cause.at({ file });
  const { code, message } = cause as NodeJS.ErrnoException;
  if (code === 'ENOENT') return new PicketError('not_found', 'no such file or folder', { file });
  const problem =
    code === 'Z_BUF_ERROR'
      ? 'the gzip data is cut short'
      : code?.startsWith('Z_')
        ? `the gzip data is damaged (${message})`
        : `cannot be read (${message})`;
  const remedy = code?.startsWith('Z_') ? 'copy or download the file again' : undefined;
  return new PicketError('bad_input', problem, { file, offset, remedy }, { cause });
}

/** The files at the paths, those of folders by name; hidden ones are left out. */
export async function findFiles(paths: readonly string[], onRead: (bytes: number) => void): Promise<SourceFile[]> {
  const found = new Map<string, SourceFile>();
  const add = async (path: string, named: boolean) => {
    if (!found.has(resolve(path))) found.set(resolve(path), await SourceFile.at(path, named, onRead));
  };
  for (const path of paths) {
    if (await isFolder(path)) for (const file of await filesIn(path)) await add(file, false);
    else await add(path, true);
  }
  return [...found.values()];
}

async function isFolder(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch (cause) {
    throw fileError(cause, path);
  }
}

async function filesIn(folder: string): Promise<string[]> {
  const files: string[] = [];
  const entries = await readdir(folder, { withFileTypes: true });
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    if (entry.name.startsWith('.')) continue;
    const path = join(folder, entry.name);
    if (entry.isDirectory()) files.push(...(await filesIn(path)));
    else if ((await stat(path)).isFile()) files.push(path);
  }
  return files;
}
