import { dirname } from 'node:path';
import { PicketError } from '../protocol/errors.js';
import { type JobMeta, newJobMeta, type RankInfo } from '../protocol/job-meta.js';
import { type PhaseBatch, PhaseBatchBuilder } from '../protocol/phase-batch.js';
import { keepRows } from '../protocol/take-rows.js';
import { canonicalPhase, KIND, kindOfPhase } from '../protocol/vocabulary.js';
import { batchOfColumns } from './columns.js';
import { nameCommunicators } from './communicators.js';
import { jobOfFile } from './file-names.js';
import type { Claim, Importer, ReadContext, SourceBatch } from './importer.js';
import { isParquet, ParquetFile, type RowRange } from './parquet.js';
import { RecordedColumns } from './recorded-columns.js';

const REQUIRED = ['rank', 'step', 'phase', 'start_ns', 'dur_ns'];
/** Both ranks of a recording share one host clock; the recordings do not name the host. */
const HOST = 'local';

/** Recordings of phases with a scenario column, and beside them the times at which the host launched each step. */
export const phasesParquet: Importer = {
  name: 'phases-parquet',
  reads: 'parquet with the columns rank, step, phase, start_ns and dur_ns',
  async claim(files) {
    const opened = await Promise.all(files.filter(isParquet).map(ParquetFile.open));
    const launches = opened.filter(({ columns }) => columns.has('host_start_ns') && columns.has('host_end_ns'));
    const recordings = opened.filter(({ columns }) => columns.has('phase'));
    // What the user names is claimed, if only to be refused with the columns it lacks.
    const others = opened.filter((one) => one.file.named && !recordings.includes(one));
    if (recordings.length === 0) return others.map((other) => claimOf(other, undefined));
    return recordings.map((recording) =>
      claimOf(
        recording,
        launches.find((one) => isBeside(one, recording)),
      ),
    );
  },
};

function claimOf(recording: ParquetFile, launches: ParquetFile | undefined): Claim {
  return {
    importer: 'phases-parquet',
    files: [recording.file, ...(launches ? [launches.file] : [])],
    hasScenarios: true,
    read: (context) => readRecording(recording, launches, context),
  };
}

const isBeside = (launches: ParquetFile, recording: ParquetFile): boolean =>
  dirname(launches.file.path) === dirname(recording.file.path) &&
  launches.columns.has('scenario') === recording.columns.has('scenario');

async function* readRecording(
  phases: ParquetFile,
  launches: ParquetFile | undefined,
  context: ReadContext,
): AsyncGenerator<SourceBatch> {
  phases.require(REQUIRED);
  const { file } = phases;
  for (const scenario of await scenariosOf(phases, context)) {
    const job = context.job ?? scenario ?? jobOfFile(file.path);
    const owner = scenario === undefined ? file.path : `${file.path} (${scenario})`;
    const rows = await readPhases(phases, job, scenario);
    if (launches) {
      const batch = await readHostGaps(launches, scenario, rows.meta);
      yield { batch, file: launches.file, owner, placeOf: () => ({ file: launches.file.path }) };
    }
    yield { batch: rows, file, owner, placeOf: () => ({ file: file.path }) };
  }
}

/** The scenarios to read, in the order of the file; [undefined] for a file without the column. */
async function scenariosOf(phases: ParquetFile, { scenario }: ReadContext): Promise<(string | undefined)[]> {
  if (!phases.columns.has('scenario')) return [undefined];
  const { values } = await phases.names('scenario', phases.all);
  if (scenario === undefined) return [...values];
  if (values.includes(scenario)) return [scenario];
  throw new PicketError('not_found', `no scenario "${scenario}"`, {
    file: phases.file.path,
    remedy: `it has ${values.join(', ')}`,
  });
}

/** A batch of a scenario's rows: of the range that spans them, those that are its own. */
async function ofScenario(
  file: ParquetFile,
  scenario: string | undefined,
  read: (range: RowRange) => Promise<PhaseBatch>,
): Promise<PhaseBatch> {
  if (scenario === undefined) return read(file.all);
  const { indices, values } = await file.names('scenario', file.all);
  const id = values.indexOf(scenario);
  const from = Math.max(0, indices.indexOf(id));
  const to = indices.lastIndexOf(id) + 1;
  const batch = await read({ from, to });
  const own = indices.subarray(from, to).map((value) => (value === id ? 1 : 0));
  return own.includes(0) ? keepRows(batch, Uint8Array.from(own)) : batch;
}

function readPhases(file: ParquetFile, job: string, scenario: string | undefined): Promise<PhaseBatch> {
  return ofScenario(file, scenario, async (range) => {
    const columns = new RecordedColumns(file, range);
    const phase = await file.names('phase', range);
    const names = { indices: phase.indices, values: phase.values.map(canonicalPhase) };
    const kinds = names.values.map((name) => KIND[kindOfPhase(name)]);
    const rank = await columns.int32('rank', -1);
    const microbatch = await columns.int32('microbatch', -1);
    const times = {
      step: await file.int64('step', range, -1n),
      // A missing time is as impossible as these values, and dropped and counted as they are.
      start_ns: await file.int64('start_ns', range, 0n),
      dur_ns: await file.int64('dur_ns', range, -1n),
    };
    const stage = await columns.int32('stage', 0);
    const stageOf = new Map(Array.from(rank, (value, i) => [value, stage[i] as number] as const));
    const serving = file.columns.has('decode_tokens');
    const name = serving ? 'tp' : 'dp';
    const { groups, ...communicators } = nameCommunicators({ ...times, rank, phase: names, microbatch }, stageOf, name);
    const meta = newJobMeta(job, { host: HOST, groups, ranks: rankInfos(stageOf, name, file.columns.has('stage')) });
    return batchOfColumns(meta, rank.length, {
      ...times,
      ...communicators,
      ...(serving ? await columns.servingWork() : { tokens: await columns.int32('tokens', -1) }),
      rank,
      microbatch,
      phase: names,
      kind: Uint8Array.from(names.indices, (id) => kinds[id] as number),
      layer: await columns.int32('layer', -1),
      bytes: await columns.int64('bytes'),
      graph: await columns.int32('graph_bucket', -1),
      request: await columns.requests(),
    });
  });
}

function rankInfos(stageOf: ReadonlyMap<number, number>, name: 'tp' | 'dp', hasStages: boolean): RankInfo[] {
  const inStage = new Map<number, number>();
  return [...stageOf]
    .filter(([rank]) => rank >= 0)
    .sort(([a], [b]) => a - b)
    .map(([rank, stage]) => {
      const index = inStage.get(stage) ?? 0;
      inStage.set(stage, index + 1);
      return { rank, [name]: index, ...(hasStages ? { pp: stage, stage } : {}) };
    });
}

/** The time between the end of one launch and the start of the next, as rows of the later step. */
function readHostGaps(file: ParquetFile, scenario: string | undefined, meta: JobMeta): Promise<PhaseBatch> {
  return ofScenario(file, scenario, async (range) => {
    const rank = Int32Array.from(await file.numbers('rank', range, -1));
    const step = await file.int64('step', range, -1n);
    const start = await file.int64('host_start_ns', range, 0n);
    const end = await file.int64('host_end_ns', range, 0n);
    const previous = new Map<number, number>();
    const order = Uint32Array.from(rank, (_, i) => i).sort((a, b) => step.number(a) - step.number(b) || a - b);
    const gaps = new PhaseBatchBuilder(meta);
    for (const row of order) {
      const last = previous.get(rank[row] as number);
      previous.set(rank[row] as number, row);
      if (last === undefined) continue;
      gaps.push({
        rank: rank[row] as number,
        step: step.bigint(row),
        phase: 'host_gap',
        kind: KIND.host,
        start_ns: end.bigint(last),
        dur_ns: start.bigint(row) - end.bigint(last),
      });
    }
    return gaps.take();
  });
}
