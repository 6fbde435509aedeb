import { PicketError } from '../protocol/errors.js';
import { jobOfFile, rankOfFile } from './file-names.js';
import type { Claim, Importer, ReadContext, SourceBatch } from './importer.js';
import type { SourceFile } from './source-file.js';
import { TraceReader } from './trace-reader.js';
import { TraceScanner } from './trace-scanner.js';

/** Traces of PyTorch's profiler (Kineto), of NDTimeline, and others whose events are phases. */
export const chromeTrace: Importer = {
  name: 'chrome-trace',
  reads: 'Kineto or Chrome traces (.json)',
  async claim(files) {
    return files.filter(isTrace).map((file): Claim => {
      return { importer: 'chrome-trace', files: [file], read: (context) => readTrace(file, context) };
    });
  },
};

/** Of a file that the user names its first byte must do; in a folder lies JSON of every kind. */
function isTrace({ name, named, head }: SourceFile): boolean {
  const start = head
    .toString('latin1')
    .replace(/^\xef\xbb\xbf/, '')
    .trimStart();
  if (!/\.json(\.gz)?$/i.test(name) && !start.includes('"traceEvents"')) return false;
  if (named) return start.startsWith('{') || start.startsWith('[');
  if (start.startsWith('[')) return /"ph"\s*:/.test(start);
  return start.startsWith('{') && /"(traceEvents|schemaVersion|deviceProperties|distributedInfo)"\s*:/.test(start);
}

async function* readTrace(file: SourceFile, context: ReadContext): AsyncGenerator<SourceBatch> {
  const reader = new TraceReader(file.path, context);
  const scanner = new TraceScanner(TraceReader.FIELDS, reader);
  try {
    for await (const chunk of file.chunks()) scanner.push(chunk);
    scanner.end();
  } catch (error) {
    throw error instanceof PicketError ? error.at({ file: file.path }) : error;
  }
  const known = reader.rank ?? rankOfFile(file.path);
  const job = context.job ?? jobOfFile(file.path);
  const rankAssumed = known === undefined && !reader.namesItsRanks;
  for (const batch of reader.rows(job, known ?? 0))
    yield { batch, file, owner: file.path, rankAssumed, placeOf: () => ({ file: file.path }) };
}
