import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PartitionPipeline } from '../../detector/pipeline/partition-pipeline.js';
import { importPaths } from '../../importers/index.js';
import type { Incident } from '../../protocol/incident.js';
import type { JobMeta } from '../../protocol/job-meta.js';
import { PhaseBatchBuilder, rowOf } from '../../protocol/phase-batch.js';
import { sharedData } from '../support/shared-data.js';
import { mulberry32 } from '../support/trace.js';

/*
 * Recorded traces, altered in ways that must not change the verdict: other rank numbers, a faster or slower machine, rows
 * summed over layers, each rank on a host with a clock of its own, rows lost or sent twice on the way.
 */

type Row = ReturnType<typeof rowOf>;

/** Rows of one host, in their order. */
interface Host {
  readonly meta: JobMeta;
  readonly rows: readonly Row[];
}

async function recorded(folder: string, scenario: string): Promise<Host> {
  const rows: Row[] = [];
  let meta: JobMeta | undefined;
  for await (const batch of importPaths([sharedData(folder).path], { scenario })) {
    meta ??= batch.meta;
    for (let i = 0; i < batch.length; i++) rows.push(rowOf(batch, i));
  }
  return { meta: meta as JobMeta, rows };
}

const MESSAGE_ROWS = 2000;

function verdicts(hosts: readonly Host[]): unknown[][] {
  const pipeline = new PartitionPipeline();
  const found = new Map<string, Incident>();
  let offset = 0n;
  const longest = Math.max(...hosts.map(({ rows }) => rows.length));
  for (let at = 0; at < longest; at += MESSAGE_ROWS)
    for (const { meta, rows } of hosts) {
      const builder = new PhaseBatchBuilder(meta);
      for (const row of rows.slice(at, at + MESSAGE_ROWS)) builder.push(row);
      for (const { after } of pipeline.add(builder.take(), { place: '', offset: offset++, again: false }))
        found.set(after.id, after);
    }
  for (const { after } of pipeline.flush()) found.set(after.id, after);
  return [...found.values()].map(({ kind, cause, subject }) => [kind, cause, subject.ranks]);
}

function renumbered({ meta, rows }: Host): Host[] {
  const other = (rank: number): number => 9 - rank;
  const groups = Object.fromEntries(Object.entries(meta.groups).map(([name, ranks]) => [name, ranks.map(other)]));
  const ranks = meta.ranks.map((info) => ({ ...info, rank: other(info.rank) }));
  return [{ meta: { ...meta, ranks, groups }, rows: rows.map((row) => ({ ...row, rank: other(row.rank as number) })) }];
}

function slower({ meta, rows }: Host, times: number): Host[] {
  const first = rows[0]?.start_ns as bigint;
  const longer = (ns: number | bigint): bigint => BigInt(Math.round(Number(ns) * times));
  return [
    {
      meta,
      rows: rows.map((row) => ({
        ...row,
        start_ns: first + longer((row.start_ns as bigint) - first),
        dur_ns: longer(row.dur_ns),
        busy_ns: Number(row.busy_ns) < 0 ? row.busy_ns : longer(row.busy_ns),
      })),
    },
  ];
}

/** One row a rank, step and phase, as the collector sends them; the transfer of ranks on other hosts is not known to it. */
function summed({ meta, rows }: Host): Host {
  const sums = new Map<string, Row>();
  for (const row of rows) {
    const key = [row.rank, row.step, row.phase, row.group, row.microbatch].join();
    const sum = sums.get(key);
    if (!sum) sums.set(key, { ...row, layer: -1, seq: -1n, count: 1 });
    else
      Object.assign(sum, {
        count: Number(sum.count) + 1,
        dur_ns: BigInt(sum.dur_ns) + BigInt(row.dur_ns),
        bytes: Number(row.bytes) < 0 ? row.bytes : BigInt(sum.bytes) + BigInt(row.bytes),
        busy_ns: Number(row.busy_ns) < 0 ? row.busy_ns : BigInt(sum.busy_ns) + BigInt(row.busy_ns),
      });
  }
  return { meta, rows: [...sums.values()] };
}

/** Every rank on a host of its own, whose clock is off. */
function apart({ meta, rows }: Host): Host[] {
  return [0, 1].map((rank) => {
    const ranks = meta.ranks.filter((info) => info.rank === rank).map((info) => ({ ...info, host: `host-${rank}` }));
    const own = rows.filter((row) => row.rank === rank);
    const skewed = own.map((row) => ({ ...row, start_ns: (row.start_ns as bigint) + BigInt(rank) * 3_000_000_000n }));
    return { meta: { ...meta, host: `host-${rank}`, ranks }, rows: skewed };
  });
}

/** A row in fifty is lost, another one sent twice. */
function unreliable({ meta, rows }: Host): Host[] {
  const chance = mulberry32(2);
  return [{ meta, rows: rows.flatMap((row) => [[], [row, row]][Math.floor(50 * chance())] ?? [row]) }];
}

const ALTERATIONS: Record<string, (host: Host) => Host[]> = {
  'with other rank numbers': renumbered,
  'on a machine four times as slow': (host) => slower(host, 4),
  'on a machine four times as fast': (host) => slower(host, 0.25),
  'summed over layers': (host) => [summed(host)],
  'summed, each rank on a host with a clock of its own': (host) => apart(summed(host)),
  'with rows lost and sent twice': unreliable,
};

const RECORDED: Record<string, Record<string, unknown[][]>> = {
  'h200-tp2': {
    healthy: [],
    host_straggler: [['straggler', 'host', [0]]],
    compute_straggler: [['straggler', 'compute', [1]]],
    kv_recompute: [['kv_recompute', 'memory', []]],
  },
  'h200-train': {
    train_healthy: [],
    train_slow_20: [['straggler', 'compute', [1]]],
    train_dataload: [['straggler', 'data', [1]]],
    pipeline_heavy_last: [['stage_imbalance', 'configuration', [1]]],
    pipeline_healthy: [],
  },
};

for (const [folder, scenarios] of Object.entries(RECORDED))
  describe(`${folder}, altered`, { skip: sharedData(folder).skip }, () => {
    for (const [scenario, expected] of Object.entries(scenarios))
      it(scenario, async () => {
        const host = await recorded(folder, scenario);
        for (const [how, alter] of Object.entries(ALTERATIONS)) {
          const answer = alter === renumbered ? expected.map((verdict) => withOtherRanks(verdict)) : expected;
          assert.deepEqual(verdicts(alter(host)), answer, how);
        }
      });
  });

const withOtherRanks = ([kind, cause, ranks]: unknown[]): unknown[] => [
  kind,
  cause,
  (ranks as number[]).map((rank) => 9 - rank),
];
