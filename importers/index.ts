import { type ErrorPlace, PicketError } from '../protocol/errors.js';
import type { PhaseBatch } from '../protocol/phase-batch.js';
import { checkRows } from '../protocol/phase-checks.js';
import type { SampleRow } from '../protocol/sample.js';
import { keepRows } from '../protocol/take-rows.js';
import { arrowMessages } from './arrow-messages.js';
import { chromeTrace } from './chrome-trace.js';
import type { Claim, Importer, ReadContext, SourceBatch } from './importer.js';
import { jsonl } from './jsonl.js';
import { mergeBySteps } from './merge.js';
import { ndtimelineParquet } from './ndtimeline-parquet.js';
import { RankOwners } from './owners.js';
import { phasesParquet } from './phases-parquet.js';
import { findFiles, type SourceFile } from './source-file.js';
import { StepOrder } from './step-order.js';

const IMPORTERS: readonly Importer[] = [jsonl, arrowMessages, ndtimelineParquet, phasesParquet, chromeTrace];

export interface ImportOptions {
  /** Overrides the job that the files name. */
  readonly job?: string | undefined;
  /** Of files that hold several: the one to read. Without it each scenario is a job. */
  readonly scenario?: string | undefined;
  /** Bytes read so far of all bytes on disk. */
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
  /** Sample rows, in the order of the files. */
  readonly onSample?: ((sample: SampleRow & { job: string }) => void) | undefined;
  /** Rows held back to put them in step order; see StepOrder. */
  readonly windowRows?: number | undefined;
}

export interface Tally {
  count: number;
  readonly first: ErrorPlace;
}

/** What an import did; complete once its batches are consumed. */
export interface ImportReport {
  rows: number;
  samples: number;
  readonly files: { readonly path: string; readonly importer: string; rows: number }[];
  /** Files of a folder that no importer reads. */
  readonly unclaimed: string[];
  /** Records that cannot be true or cannot be placed, by reason. */
  readonly dropped: Map<string, Tally>;
  /** Records kept after a correction, by reason. */
  readonly repaired: Map<string, Tally>;
}

/** The rows of files as messages of a live collector, and a report of what became of them. */
export interface Import extends AsyncIterable<PhaseBatch> {
  readonly report: ImportReport;
}

/**
 * Reads files and folders into messages: at most MAX_MESSAGE_ROWS rows of one job, run and host each, in step order.
 * The same paths always give the same messages. Iterate once. Throws PicketError for what cannot be read.
 */
export function importPaths(paths: readonly string[], options: ImportOptions = {}): Import {
  const report: ImportReport = {
    rows: 0,
    samples: 0,
    files: [],
    unclaimed: [],
    dropped: new Map(),
    repaired: new Map(),
  };
  return { report, [Symbol.asyncIterator]: () => readAll(paths, options, report) };
}

async function* readAll(
  paths: readonly string[],
  options: ImportOptions,
  report: ImportReport,
): AsyncGenerator<PhaseBatch> {
  let done = 0;
  let total = Number.POSITIVE_INFINITY;
  const files = await findFiles(paths, (bytes) => {
    done += bytes;
    if (Number.isFinite(total)) options.onProgress?.(Math.min(done, total), total);
  });
  const claims = await claimFiles(files, report);
  if (options.scenario !== undefined && !claims.some(({ hasScenarios }) => hasScenarios))
    throw new PicketError('bad_input', `no file has scenarios, so "${options.scenario}" chooses nothing`);
  total = claims.flatMap((claim) => claim.files).reduce((sum, file) => sum + file.size, 0);
  const context = readContext(options, report);
  const order = new StepOrder(options.windowRows);
  const owners = new RankOwners();
  const entries = new Map(report.files.map((entry) => [entry.path, entry]));
  for await (const piece of mergeBySteps(claims.map((claim) => claim.read(context)))) {
    const batch = possibleRows(piece, context);
    owners.check(piece);
    const entry = entries.get(piece.file.path);
    if (entry) entry.rows += batch.length;
    report.rows += batch.length;
    yield* order.push(batch);
  }
  yield* order.flush();
}

function possibleRows({ batch, placeOf }: SourceBatch, context: ReadContext): PhaseBatch {
  const { keep, dropped } = checkRows(batch);
  for (const [reason, { count, firstRow }] of dropped) context.dropped(reason, placeOf(firstRow), count);
  return keep ? keepRows(batch, keep) : batch;
}

async function claimFiles(files: readonly SourceFile[], report: ImportReport): Promise<Claim[]> {
  const claims: Claim[] = [];
  let free = files;
  for (const importer of IMPORTERS) {
    const claimed = await importer.claim(free);
    const taken = new Set(claimed.flatMap((claim) => claim.files));
    free = free.filter((file) => !taken.has(file));
    claims.push(...claimed);
  }
  for (const file of free) if (file.named) throw file.damage ?? notSupported(file);
  report.unclaimed.push(...free.map(({ path }) => path));
  for (const { importer, files } of claims)
    for (const { path } of files) report.files.push({ path, importer, rows: 0 });
  if (claims.length > 0) return claims;
  throw new PicketError('bad_input', `nothing to import among ${files.length} files`, { remedy: supported() });
}

function notSupported(file: SourceFile): PicketError {
  const start = file.head.toString('latin1', 0, 24).replace(/[^ -~]/g, '.');
  const problem = file.head.length === 0 ? 'is empty' : `begins with "${start}", which no importer reads`;
  return new PicketError('bad_input', problem, { file: file.path, offset: 0, remedy: supported() });
}

const supported = (): string => `supported: ${IMPORTERS.map(({ reads }) => reads).join('; ')}`;

function readContext(options: ImportOptions, report: ImportReport): ReadContext {
  const add = (tallies: Map<string, Tally>) => {
    return (reason: string, first: ErrorPlace, count = 1): void => {
      const tally = tallies.get(reason);
      if (tally) tally.count += count;
      else tallies.set(reason, { count, first });
    };
  };
  return {
    job: options.job,
    scenario: options.scenario,
    dropped: add(report.dropped),
    repaired: add(report.repaired),
    sample(sample) {
      report.samples++;
      options.onSample?.(sample);
    },
  };
}
