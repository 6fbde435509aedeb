import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { Collector } from '../../collector/collector.js';
import { type CollectorConfig, parseCollectorConfig } from '../../collector/config.js';
import type { Message } from '../../collector/message.js';
import { createMetrics } from '../../collector/metrics.js';
import { RunBook } from '../../collector/run-book.js';
import { listSegments, openSegment } from '../../native/ts/index.js';
import { decodePhases } from '../../protocol/arrow.js';
import type { JobMeta } from '../../protocol/job-meta.js';
import { rowOf } from '../../protocol/phase-batch.js';
import { make, skip } from '../native/build.js';
import { T0 } from './segment-file.js';

make('addon');
/** Give it to node:test. */
export const needsAddon = { skip } as const;

export const START_MS = Number(T0 / 1_000_000n);

/** A folder that goes with the test file. */
export function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'picket-collector-'));
  after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

export type Row = ReturnType<typeof rowOf>;

/** A collector over a folder of segments whose clock the test sets, and what it has sent. */
export class Collecting {
  readonly collector: Collector;
  readonly messages: Message[] = [];
  readonly refused: string[] = [];
  readonly metrics = createMetrics();
  nowMs = START_MS;

  constructor(
    readonly dir: string,
    config: Partial<Record<keyof CollectorConfig, unknown>> = {},
    readonly runs = new RunBook(),
  ) {
    const yaml = { segments_dir: dir, sink: { kind: 'files', dir }, ...config };
    this.collector = new Collector({
      config: parseCollectorConfig(JSON.stringify(yaml), 'test'),
      host: 'host-1',
      registry: {
        list: () => listSegments(dir),
        open: (path) => openSegment(path, true),
        remove: (path) => rmSync(path),
        onRefused: (_, error) => this.refused.push(error.message),
      },
      runs,
      metrics: this.metrics,
      push: (messages) => this.messages.push(...messages),
      onTooLarge: () => {},
      log: () => {},
      startedMs: START_MS,
    });
  }

  /** Scans, then ticks until all is read; time goes on by so many milliseconds before each tick. */
  run(ticks = 3, stepMs = 0): this {
    this.collector.scan(this.nowMs);
    for (let i = 0; i < ticks; i++) {
      this.nowMs += stepMs;
      while (this.collector.tick(this.nowMs));
    }
    return this;
  }

  /** Everything that is there is sent. */
  close(): this {
    this.collector.close(this.nowMs);
    return this;
  }

  get batches(): { meta: JobMeta; rows: Row[] }[] {
    return this.messages.map(({ value }) => {
      const batch = decodePhases(value);
      return { meta: batch.meta, rows: Array.from({ length: batch.length }, (_, i) => rowOf(batch, i)) };
    });
  }

  get rows(): Row[] {
    return this.batches.flatMap(({ rows }) => rows);
  }
}

/** Columns of rows as plain numbers and texts; starts are counted from T0. */
export const pick = (rows: readonly Row[], ...columns: (keyof Row)[]): Record<string, unknown>[] =>
  rows.map((row) =>
    Object.fromEntries(
      columns.map((column) => {
        const value = row[column];
        if (column === 'start_ns') return [column, Number((value as bigint) - T0)];
        return [column, typeof value === 'bigint' ? Number(value) : value];
      }),
    ),
  );

/** The rows of one phase. */
export const ofPhase = (rows: readonly Row[], phase: string): Row[] => rows.filter((row) => row.phase === phase);

/** A metric's value on /metrics, with its labels as they are shown. */
export async function metric(collecting: Collecting, line: string): Promise<number> {
  const text = await collecting.metrics.registry.metrics();
  const found = text.split('\n').find((one) => one.startsWith(`${line} `));
  return Number(found?.slice(line.length + 1));
}
