import { isUtf8 } from 'node:buffer';
import { type ErrorPlace, PicketError } from '../protocol/errors.js';
import { type JobMeta, newJobMeta, type RankInfo } from '../protocol/job-meta.js';
import { type JsonlLine, type LineFacts, parsePhaseLine } from '../protocol/jsonl.js';
import { MAX_JSON_VALUE_BYTES, MAX_MESSAGE_ROWS, MAX_RANK } from '../protocol/limits.js';
import { PhaseBatchBuilder, type PhaseRow } from '../protocol/phase-batch.js';
import { jobOfFile } from './file-names.js';
import type { Claim, Importer, ReadContext, SourceBatch } from './importer.js';
import type { SourceFile } from './source-file.js';

const NEWLINE = 10;

/** Picket's own rows, one JSON object a line. */
export const jsonl: Importer = {
  name: 'jsonl',
  reads: 'JSONL rows (.jsonl, .ndjson)',
  async claim(files) {
    return files.filter(isJsonl).map((file): Claim => {
      return { importer: 'jsonl', files: [file], read: (context) => readJsonl(file, context) };
    });
  },
};

/** In a folder other programs' JSONL may lie beside ours; a file that the user names is held to be ours. */
function isJsonl({ name, named, head }: SourceFile): boolean {
  if (!/\.(jsonl|ndjson)(\.gz)?$/i.test(name)) return false;
  return named || /"(phase|sample)"\s*:/.test(head.toString('latin1', 0, firstLineEnd(head)));
}

function firstLineEnd(head: Buffer): number {
  const end = head.indexOf(
    NEWLINE,
    head.findIndex((byte) => byte > 32),
  );
  return end < 0 ? head.length : end;
}

async function* readJsonl(file: SourceFile, context: ReadContext): AsyncGenerator<SourceBatch> {
  const rows = new RowsByHost(file, context);
  let line = 0;
  for await (const lines of readLines(file, context))
    for (const text of lines) {
      line++;
      if (text.trim() !== '') rows.add(parseAt(text, { file: file.path, line }), line);
      if (rows.length === MAX_MESSAGE_ROWS) yield* rows.take();
    }
  yield* rows.take();
}

function parseAt(text: string, place: ErrorPlace): JsonlLine {
  try {
    return parsePhaseLine(text);
  } catch (error) {
    throw error instanceof PicketError ? error.at(place) : error;
  }
}

/** Blocks of whole lines; bytes that are not UTF-8 become U+FFFD, and their lines are counted. */
async function* readLines(file: SourceFile, context: ReadContext): AsyncGenerator<string[]> {
  let line = 0;
  let rest: Buffer = Buffer.alloc(0);
  const linesOf = (block: Buffer): string[] => {
    if (!isUtf8(block)) countInvalidLines(block, file, line, context);
    const lines = block.toString('utf8').split('\n');
    if (line === 0) lines[0] = (lines[0] as string).replace(/^\ufeff/, '');
    line += lines.length;
    return lines;
  };
  for await (const chunk of file.chunks()) {
    const block = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk;
    const end = block.lastIndexOf(NEWLINE);
    rest = block.subarray(end + 1);
    if (end >= 0) yield linesOf(block.subarray(0, end));
    if (rest.length > MAX_JSON_VALUE_BYTES)
      throw new PicketError('too_large', `line exceeds ${MAX_JSON_VALUE_BYTES} bytes`, {
        file: file.path,
        line: line + 1,
      });
  }
  if (rest.length > 0) yield linesOf(rest);
}

function countInvalidLines(block: Buffer, file: SourceFile, linesBefore: number, context: ReadContext): void {
  let line = linesBefore;
  for (let from = 0; from <= block.length; ) {
    const newline = block.indexOf(NEWLINE, from);
    const end = newline < 0 ? block.length : newline;
    line++;
    if (!isUtf8(block.subarray(from, end))) context.repaired('invalid_utf8', { file: file.path, line });
    from = end + 1;
  }
}

/** Rows gathered by job, run and host, as one message holds them. */
class RowsByHost {
  length = 0;
  readonly #file: SourceFile;
  readonly #context: ReadContext;
  readonly #jobOfFile: string;
  readonly #hosts = new Map<string, HostRows>();
  /** The job that the file's rows name, where the user names another. */
  #namedJob: string | undefined;

  constructor(file: SourceFile, context: ReadContext) {
    this.#file = file;
    this.#context = context;
    this.#jobOfFile = jobOfFile(file.path);
  }

  add(parsed: JsonlLine, line: number): void {
    const place = { file: this.#file.path, line };
    if (parsed.type === 'dropped') this.#context.dropped(parsed.reason, { ...place, field: parsed.field });
    else if (parsed.type === 'sample') this.#context.sample({ ...parsed.sample, job: this.#jobOf(parsed.sample.job) });
    else {
      if (parsed.namesCut > 0) this.#context.repaired('name_cut', place, parsed.namesCut);
      const { run = '1', host = '' } = parsed.facts;
      this.#checkOneJob(parsed.facts.job, place);
      this.#rowsOf(this.#jobOf(parsed.facts.job), run, host).add(parsed.facts, parsed.row, line);
      this.length++;
    }
  }

  /** An override would mix the rows of several jobs. */
  #checkOneJob(named: string | undefined, place: ErrorPlace): void {
    if (this.#context.job === undefined || named === undefined || named === this.#namedJob) return;
    if (this.#namedJob !== undefined)
      throw new PicketError('conflict', `a second job, "${named}" beside "${this.#namedJob}", under one --job`, {
        ...place,
        field: 'job',
        remedy: 'leave --job out, or give a file with one job',
      });
    this.#namedJob = named;
  }

  #jobOf(named: string | undefined): string {
    return this.#context.job ?? named ?? this.#jobOfFile;
  }

  #rowsOf(job: string, run: string, host: string): HostRows {
    const key = JSON.stringify([job, run, host]);
    let rows = this.#hosts.get(key);
    if (!rows) this.#hosts.set(key, (rows = new HostRows(newJobMeta(job, { run, host }))));
    return rows;
  }

  /** What has been gathered since the last call. */
  *take(): Generator<SourceBatch> {
    this.length = 0;
    for (const rows of this.#hosts.values()) {
      const { batch, lines } = rows.take();
      if (batch.length > 0)
        yield {
          batch,
          file: this.#file,
          owner: this.#file.path,
          placeOf: (i) => ({ file: this.#file.path, line: lines[i] }),
        };
    }
  }
}

class HostRows {
  readonly #builder: PhaseBatchBuilder;
  readonly #ranks = new Map<number, RankInfo>();
  #meta: JobMeta;
  #lines: number[] = [];

  constructor(meta: JobMeta) {
    this.#meta = meta;
    this.#builder = new PhaseBatchBuilder(meta, 16);
  }

  add({ job_info, rank_info, groups }: LineFacts, row: PhaseRow, line: number): void {
    if (job_info) this.#meta = { ...this.#meta, ...job_info };
    if (groups) this.#meta = { ...this.#meta, groups: { ...this.#meta.groups, ...groups } };
    // A row with an impossible rank is dropped later, by its column.
    if ((rank_info || !this.#ranks.has(row.rank)) && row.rank >= 0 && row.rank <= MAX_RANK)
      this.#ranks.set(row.rank, { ...this.#ranks.get(row.rank), ...rank_info, rank: row.rank });
    this.#builder.push(row);
    this.#lines.push(line);
  }

  take() {
    const batch = { ...this.#builder.take(), meta: { ...this.#meta, ranks: [...this.#ranks.values()] } };
    const lines = this.#lines;
    this.#lines = [];
    return { batch, lines };
  }
}
