import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { PartitionPipeline } from '../detector/pipeline/partition-pipeline.js';
import { importPaths } from '../importers/index.js';
import { decodePhases, encodePhases } from '../protocol/arrow.js';
import { formatPhaseLine } from '../protocol/jsonl.js';
import { type PhaseBatch, PhaseBatchBuilder, rowOf } from '../protocol/phase-batch.js';
import { best, print } from './measure.js';

/*
 * Rows a second of the Arrow decoder and of the whole detector, against JSON.parse of the same rows, and against a pandas
 * groupby-median of the same rows where there is a Python with pandas. All sides run by turns in one process, with the
 * young generation that docker-compose.yml gives the detector.
 */

const EXCERPT = resolve('fixtures/h200-tp2-excerpt');
const MESSAGE_ROWS = [1000, 8000];

export async function benchDetector(): Promise<void> {
  const batches: PhaseBatch[] = [];
  for await (const batch of importPaths([EXCERPT])) batches.push(batch);
  const rows = batches.reduce((sum, batch) => sum + batch.length, 0);
  const lines = linesOf(batches);
  const bytes = Math.round(lines.reduce((sum, line) => sum + line.length, 0) / lines.length);
  const pandas = pandasSeconds(lines);
  for (const size of MESSAGE_ROWS) {
    const messages = cut(batches, size);
    const seconds = best({
      json: () => {
        for (const line of lines) JSON.parse(line);
      },
      decode: () => {
        for (const message of messages) decodePhases(message);
      },
      detector: () => detect(messages),
    });
    const figure = (name: string, taken: number) => ({
      figure: name,
      message_rows: size,
      rows_per_s: Math.round(rows / taken),
      ns_per_row: Math.round((1e9 * taken) / rows),
      times_json_parse: Math.round((100 * seconds.json) / taken) / 100,
      ...(pandas && { times_pandas: Math.round((100 * pandas) / taken) / 100 }),
    });
    print({ ...figure('json_parse', seconds.json), bytes_per_row: bytes });
    print(figure('arrow_decode', seconds.decode));
    print(figure('whole_detector', seconds.detector));
    if (pandas) print(figure('pandas_groupby_median', pandas));
  }
}

function detect(messages: readonly Uint8Array[]): void {
  const pipeline = new PartitionPipeline();
  let offset = 0n;
  for (const message of messages) pipeline.add(decodePhases(message), { place: '', offset: offset++, again: false });
  pipeline.flush();
}

function cut(batches: readonly PhaseBatch[], size: number): Uint8Array[] {
  const builders = new Map<string, PhaseBatchBuilder>();
  const messages: Uint8Array[] = [];
  for (const batch of batches) {
    let builder = builders.get(batch.meta.job);
    if (!builder) builders.set(batch.meta.job, (builder = new PhaseBatchBuilder(batch.meta)));
    for (let i = 0; i < batch.length; i++) {
      builder.push(rowOf(batch, i));
      if (builder.length === size) messages.push(encodePhases(builder.take()));
    }
  }
  for (const builder of builders.values()) if (builder.length > 0) messages.push(encodePhases(builder.take()));
  return messages;
}

const linesOf = (batches: readonly PhaseBatch[]): string[] =>
  batches.flatMap((batch) => Array.from({ length: batch.length }, (_, i) => formatPhaseLine(batch, i)));

const PANDAS = `
import sys, time
import pandas as pd
frame = pd.read_json(sys.argv[1], lines=True)
taken = []
for _ in range(5):
    started = time.perf_counter()
    frame.groupby(['job', 'rank', 'phase'])['dur_ns'].median()
    taken.append(time.perf_counter() - started)
print(min(taken))
`;

/** Median of every phase of every rank by pandas, the frame already in memory; undefined where there is no pandas. */
function pandasSeconds(lines: readonly string[]): number | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'picket-bench-'));
  try {
    const file = join(folder, 'rows.jsonl');
    writeFileSync(file, lines.join('\n'));
    const text = execFileSync('python3', ['-c', PANDAS, file], { stdio: ['ignore', 'pipe', 'ignore'] });
    return Number(text.toString());
  } catch {
    return undefined;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
