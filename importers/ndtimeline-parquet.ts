import { MAX_DURATION_NS } from '../protocol/limits.js';
import { jobOfFile } from './file-names.js';
import type { Claim, Importer, ReadContext, SourceBatch } from './importer.js';
import { type TimelineEvent, timelineRows } from './ndtimeline.js';
import { isParquet, ParquetFile } from './parquet.js';
import type { SourceFile } from './source-file.js';

const REQUIRED = ['dp_rank', 'stage', 'step', 'optype', 'start_ts', 'duration', 'seq_id', 'mb_id'];

/** A training job recorded by NDTimeline: start and duration in seconds, relative to the step. */
export const ndtimelineParquet: Importer = {
  name: 'ndtimeline-parquet',
  reads: 'NDTimeline parquet (optype, start_ts, duration, dp_rank, ...)',
  async claim(files) {
    const claims: Claim[] = [];
    for (const file of files.filter(isParquet))
      if ((await ParquetFile.open(file)).columns.has('optype'))
        claims.push({ importer: 'ndtimeline-parquet', files: [file], read: (context) => readTimeline(file, context) });
    return claims;
  },
};

async function* readTimeline(file: SourceFile, context: ReadContext): AsyncGenerator<SourceBatch> {
  const parquet = await ParquetFile.open(file);
  parquet.require(REQUIRED);
  const numbers = (name: string, absent: number) => parquet.numbers(name, parquet.all, absent);
  const optype = await parquet.names('optype', parquet.all);
  const columns = {
    dp: await numbers('dp_rank', 0),
    tp: parquet.columns.has('tp_rank') ? await numbers('tp_rank', 0) : undefined,
    stage: await numbers('stage', 0),
    step: await numbers('step', -1),
    seq: await numbers('seq_id', -1),
    microbatch: await numbers('mb_id', -1),
    start: (await numbers('start_ts', Number.NaN)).map(nanoseconds),
    duration: (await numbers('duration', Number.NaN)).map(nanoseconds),
  };
  const stepStart = endToEnd(columns.step, columns.start, columns.duration);
  const events = Array.from(optype.indices, (type, i): TimelineEvent => {
    const step = columns.step[i] as number;
    return {
      optype: optype.values[type] as string,
      dp: columns.dp[i] as number,
      tp: columns.tp?.[i] ?? 0,
      stage: columns.stage[i] as number,
      step,
      seq: columns.seq[i] as number,
      microbatch: columns.microbatch[i] as number,
      startNs: (stepStart.get(step) ?? 0) + (columns.start[i] as number),
      durNs: columns.duration[i] as number,
    };
  });
  const batch = timelineRows(context.job ?? jobOfFile(file.path), events);
  yield { batch, file, owner: file.path, placeOf: () => ({ file: file.path }) };
}

/** What is no time stays an impossible one, to be dropped and counted; the bounds keep it within 64 bits. */
const nanoseconds = (seconds: number): number =>
  Number.isNaN(seconds) ? -IMPOSSIBLE_NS : Math.min(Math.max(Math.round(seconds * 1e9), -IMPOSSIBLE_NS), IMPOSSIBLE_NS);
const IMPOSSIBLE_NS = 4e18;

/** Where each step begins when they are laid end to end, in nanoseconds since the first. */
function endToEnd(step: Float64Array, start: Float64Array, duration: Float64Array): Map<number, number> {
  const lengths = new Map<number, number>();
  for (let i = 0; i < step.length; i++) {
    const end = (start[i] as number) + (duration[i] as number);
    if (end > MAX_DURATION_NS) continue;
    lengths.set(step[i] as number, Math.max(lengths.get(step[i] as number) ?? 0, end));
  }
  let at = 0;
  const starts = new Map<number, number>();
  for (const [number, length] of [...lengths].sort(([a], [b]) => a - b)) {
    starts.set(number, at);
    at += length;
  }
  return starts;
}
