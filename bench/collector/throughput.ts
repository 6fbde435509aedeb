import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { openBus } from '../../bus/open.js';
import { BusSink } from '../../collector/bus-sink.js';
import { Collector } from '../../collector/collector.js';
import { parseCollectorConfig } from '../../collector/config.js';
import { createMetrics } from '../../collector/metrics.js';
import { Outbox } from '../../collector/outbox.js';
import { RunBook } from '../../collector/run-book.js';
import { Spool } from '../../collector/spool.js';
import { listSegments, openSegment } from '../../native/ts/index.js';
import { TOPICS } from '../../protocol/topics.js';
import { M0, SegmentFile } from '../../test/collector/segment-file.js';
import { print } from '../measure.js';

/*
 * Fence records a second that the collector takes from a segment to the embedded log, as a ratio to a plain copy of the
 * same bytes in the same run. Pinned to one core:  taskset -c 0 node dist/bench/collector/throughput.js
 * An 8B-shaped decoder: 36 layers of attention, mlp and two all-reduces, all borders; one rank.
 */

const RECORDS = 2 ** 20;
const LAYERS = 36;
/** A LINK, and begin and end of four phases a layer. */
const PER_STEP = 1 + 8 * LAYERS;
const ROUNDS = 12;
const WARM_UP = 3;

const root = mkdtempSync(join(tmpdir(), 'picket-bench-'));
process.on('exit', () => rmSync(root, { recursive: true, force: true }));
const image = writeSegment(join(root, 'image'));
const copied = new Uint8Array(16 * RECORDS).fill(1);
const target = new Uint8Array(16 * RECORDS);

const bus = openBus({ kind: 'embedded', dir: join(root, 'log'), fsync: 'never' });
const topics = [{ topic: TOPICS.phases, partitions: 1 }];
const sink = new BusSink('embedded', () => bus, topics);
let [collectorS, copyS, cpuS, rows] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, 0];
for (let round = 0; round < ROUNDS; round++) {
  const dir = join(root, `round-${round}`);
  mkdirSync(dir);
  copyFileSync(image, join(dir, basename(image)));
  const cpu = process.cpuUsage();
  const started = performance.now();
  const sent = await collect(dir);
  const wall = (performance.now() - started) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  const copying = performance.now();
  target.set(copied);
  const copyWall = (performance.now() - copying) / 1000;
  rmSync(dir, { recursive: true });
  if (round < WARM_UP) continue;
  [collectorS, copyS, rows] = [Math.min(collectorS, wall), Math.min(copyS, copyWall), sent];
  cpuS = Math.min(cpuS, (user + system) / 1e6);
}
await (await bus).close();
print({
  figure: 'collector_throughput',
  records_per_s: Math.round(RECORDS / collectorS),
  ns_per_record: Math.round((1e9 * collectorS) / RECORDS),
  records_per_cpu_s: Math.round(RECORDS / cpuS),
  memcpy_ns_per_record: Math.round((1e11 * copyS) / RECORDS) / 100,
  times_memcpy: Math.round((10 * collectorS) / copyS) / 10,
  rows,
  rss_mb: Math.round(process.resourceUsage().maxRSS / 1024),
});

/** One collector over a folder, until the log has all of it. Returns the rows sent. */
async function collect(dir: string): Promise<number> {
  let rows = 0;
  const spool = new Spool({ dir: join(root, 'spool'), maxBytes: 2 ** 30, onDropped: lost });
  const outbox = new Outbox({
    sink,
    spool,
    wait: (_, wake) => wake,
    onSent: (_, sent) => {
      rows += sent;
    },
    onDropped: lost,
    log: lost,
  });
  const startedMs = Date.now();
  const collector = new Collector({
    config: parseCollectorConfig(`{segments_dir: ${dir}, sink: {kind: files, dir: ${dir}}}`, 'bench'),
    host: 'bench',
    registry: {
      list: () => listSegments(dir),
      open: (path) => openSegment(path, true),
      remove: rmSync,
      onRefused: lost,
    },
    runs: new RunBook(),
    metrics: createMetrics(),
    push: (messages) => outbox.push(messages),
    onTooLarge: lost,
    log: () => {},
    startedMs,
  });
  collector.scan(startedMs);
  // Between turns as in the daemon: sending goes on meanwhile.
  while (collector.tick(Date.now())) await new Promise((resolve) => setImmediate(resolve));
  collector.close(Date.now());
  await outbox.close(60_000);
  if (!spool.empty) lost('the spool was used');
  return rows;
}

function lost(...what: unknown[]): never {
  throw new Error(`something was lost: ${what.join(' ')}`);
}

function writeSegment(dir: string): string {
  mkdirSync(dir);
  const attributes = { job: 'bench', rank: 0, groups: { tp: [0] } };
  const segment = new SegmentFile(dir, { attributes, fences: RECORDS, hosts: 16_384 });
  const layers = Array.from({ length: LAYERS }, (_, layer) => {
    const reduce = segment.phase('all_reduce', 'comm', { layer, group: 'tp', bytes: 8192 });
    return [
      segment.phase('attention', 'compute', { layer }),
      reduce,
      segment.phase('mlp', 'compute', { layer }),
      reduce,
    ];
  });
  let time = M0;
  let written = 0;
  for (let step = 0; written + PER_STEP <= RECORDS; step++) {
    segment.step({ step, batch: 1, decodeTokens: 1, graph: 1 }, time);
    for (const phases of layers)
      for (const phase of phases) {
        segment.begin(phase, time, 1);
        segment.end(phase, (time += 30_000n), 1);
        time += 1000n;
      }
    written += PER_STEP;
  }
  segment.close();
  return segment.path;
}
