import { dirname, join } from 'node:path';
import { decodePhases } from '../protocol/arrow.js';
import { PicketError } from '../protocol/errors.js';
import { MAX_MESSAGE_BYTES } from '../protocol/limits.js';
import type { Claim, Importer, ReadContext, SourceBatch } from './importer.js';
import type { SourceFile } from './source-file.js';

/** As the collector names its files: job, milliseconds of the epoch and number; another program may name them as it likes. */
const WRITTEN = /^(.*?)(?:-(\d+)-(\d+))?\.arrows(?:\.gz)?$/i;

/** Messages of rows as the topic holds them, one a file: what a collector writes whose sink is `files`. */
export const arrowMessages: Importer = {
  name: 'arrow',
  reads: "a collector's files, Arrow IPC streams of rows (.arrows)",
  async claim(files) {
    const series = new Map<string, SourceFile[]>();
    for (const file of files) {
      const [, name] = WRITTEN.exec(file.name) ?? [];
      if (name === undefined) continue;
      const key = join(dirname(file.path), name);
      series.set(key, [...(series.get(key) ?? []), file]);
    }
    return [...series].map(
      ([key, ofSeries]): Claim => ({
        importer: 'arrow',
        files: ofSeries,
        read: (context) => readMessages(ofSeries.toSorted(byTime), key, context),
      }),
    );
  },
};

function byTime(a: SourceFile, b: SourceFile): number {
  const [timeA, timeB] = [a, b].map(({ name }) => WRITTEN.exec(name)?.slice(2).map(Number) ?? []);
  return (timeA?.[0] ?? 0) - (timeB?.[0] ?? 0) || (timeA?.[1] ?? 0) - (timeB?.[1] ?? 0);
}

async function* readMessages(
  files: readonly SourceFile[],
  owner: string,
  context: ReadContext,
): AsyncGenerator<SourceBatch> {
  for (const file of files) {
    const { meta, ...rows } = decodeAt(await contentOf(file), file.path);
    const batch = { ...rows, meta: { ...meta, job: context.job ?? meta.job } };
    yield { batch, file, owner, placeOf: () => ({ file: file.path }) };
  }
}

async function contentOf(file: SourceFile): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of file.chunks()) {
    bytes += chunk.length;
    if (bytes > MAX_MESSAGE_BYTES)
      throw new PicketError('too_large', `exceeds the ${MAX_MESSAGE_BYTES} bytes of a message`, {
        file: file.path,
        remedy: 'write fewer rows a file',
      });
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function decodeAt(bytes: Uint8Array, file: string) {
  try {
    return decodePhases(bytes);
  } catch (error) {
    throw error instanceof PicketError ? error.at({ file }) : error;
  }
}
