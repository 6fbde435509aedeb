import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { openBus } from '../../bus/open.js';
import { decodePhases } from '../../protocol/arrow.js';
import { type CollectorHeartbeat, decodeHeartbeat } from '../../protocol/heartbeat.js';
import { rowOf } from '../../protocol/phase-batch.js';
import { TOPICS } from '../../protocol/topics.js';
import { make } from '../native/build.js';
import { Writer } from '../native/writer.js';
import { CollectorProcess } from './collector-process.js';
import { folder, needsAddon, type Row } from './support.js';

make('tests');

/** Everything that comes on the topics of a log, as it comes. */
class Listener {
  readonly rows: (Row & { run: string })[] = [];
  readonly heartbeats: CollectorHeartbeat[] = [];

  static async start(dir: string): Promise<Listener> {
    const listener = new Listener();
    const bus = await openBus({ kind: 'embedded', dir, pollMs: 10 });
    after(() => bus.close());
    const topics = [TOPICS.phases, TOPICS.collectors];
    await bus.createTopics(topics.map((topic) => ({ topic, partitions: 1 })));
    const consumer = await bus.consumer('test', topics);
    await consumer.start({
      assigned: async () => undefined,
      revoked: async () => {},
      records: async ({ topic }, records) => {
        for (const { value } of records)
          if (topic === TOPICS.collectors) listener.heartbeats.push(decodeHeartbeat(value));
          else {
            const batch = decodePhases(value);
            for (let i = 0; i < batch.length; i++) listener.rows.push({ ...rowOf(batch, i), run: batch.meta.run });
          }
      },
    });
    return listener;
  }

  /** Resolves to what satisfies, once there is some. */
  async until<T>(find: () => T | undefined, withinMs = 20_000): Promise<T> {
    const end = performance.now() + withinMs;
    for (;;) {
      const found = find();
      if (found !== undefined && found !== false) return found;
      if (performance.now() > end) throw new Error(`waited in vain; rows: ${this.rows.length}`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
}

async function startAll(dir: string): Promise<{ segments: string; listener: Listener; collector: CollectorProcess }> {
  const segments = join(dir, 'segments');
  mkdirSync(segments);
  const log = join(dir, 'log');
  const listener = await Listener.start(log);
  const sink = { kind: 'embedded', dir: log, fsync: 'never' };
  const collector = new CollectorProcess(dir, { segments_dir: segments, sink, heartbeat_seconds: 0.2, host: 'h' });
  after(() => collector.stop('SIGKILL'));
  assert.ok(await collector.start(), collector.output.join('\n'));
  return { segments, listener, collector };
}

describe('a living engine', needsAddon, () => {
  it('that hangs shows its open phase within a second, and again while it lasts', async () => {
    const { segments, listener } = await startAll(folder());
    const writer = await Writer.start(segments, 4096, '{"job": "j", "run": "1", "rank": 3}');
    after(() => writer.kill());
    await writer.send('step 1 8 req');
    // Seen by the collector, so that what follows measures nothing but the open phase.
    await writer.send('fill 2');
    await listener.until(() => listener.rows.find(({ phase }) => phase === 'mlp'));
    await writer.send('step 2 8 req');
    await writer.send('fill 1');
    const first = await listener.until(() => listener.rows.find(({ open }) => open === 1));
    assert.deepEqual([first.rank, Number(first.step), first.phase, first.layer], [3, 2, 'mlp', 3]);
    // How long it had lasted when the row was made; the message goes out at once.
    assert.ok(Number(first.dur_ns) >= 500e6 && Number(first.dur_ns) < 1000e6, `${first.dur_ns} ns`);
    const later = await listener.until(() =>
      listener.rows.find(({ open, dur_ns }) => open === 1 && Number(dur_ns) > Number(first.dur_ns)),
    );
    assert.ok(Math.abs(Number(BigInt(later.start_ns) - BigInt(first.start_ns))) < 100_000);
  });

  it('loses nothing but the step it was in when the collector is started again', async () => {
    const dir = folder();
    const { segments, listener, collector } = await startAll(dir);
    const writer = await Writer.start(segments, 4096, '{"job": "j", "run": "1", "rank": 0}');
    after(() => writer.kill());
    const mlp = (step: number) => listener.rows.find((row) => row.phase === 'mlp' && Number(row.step) === step);
    await writer.send('step 1 8 req');
    await writer.send('fill 4');
    await listener.until(() => mlp(1));
    await collector.stop();
    await writer.send('fill 2');
    await writer.send('step 2 8 req');
    await writer.send('fill 6');
    assert.ok(await collector.start());
    await listener.until(() => mlp(2));
    await collector.stop();
    const rows = listener.rows.filter(({ phase }) => phase === 'mlp');
    const last = new Map(rows.map(({ step, count, flags }) => [Number(step), [count, flags]]));
    // A collector that ends cannot know whether the step that goes on was complete.
    assert.deepEqual(
      [...last],
      [
        [1, [2, 1]],
        [2, [3, 1]],
      ],
    );
    const dropped = listener.heartbeats.at(-1);
    assert.deepEqual([dropped?.phases_dropped, dropped?.records.lost, dropped?.records.read], [1, 0, 11]);
  });

  it('that is killed, ends or is started again is told so, and its segment is cleared away', async () => {
    const { segments, listener, collector } = await startAll(folder());
    const attributes = (rank: number) => JSON.stringify({ job: 'j', rank });
    const [killed, ended] = [
      await Writer.start(segments, 4096, attributes(0)),
      await Writer.start(segments, 4096, attributes(1)),
    ];
    after(() => Promise.all([killed.kill(), ended.kill()]));
    for (const writer of [killed, ended]) {
      await writer.send('step 1 8 req');
      await writer.send('fill 3');
    }
    const jobOf = (run: string) => listener.heartbeats.at(-1)?.jobs.find((job) => job.run === run);
    await listener.until(() => jobOf('1')?.live.length === 2);
    await killed.kill();
    await ended.send('fill 0');
    await ended.send('close');
    await listener.until(() => jobOf('1')?.died[0] === 0 && jobOf('1')?.ended[0] === 1);
    assert.deepEqual(jobOf('1')?.live, []);
    // What the dead engine had stamped came, marked as partial.
    const rows = await listener.until(() => {
      const found = listener.rows.filter(({ phase, open }) => phase === 'mlp' && open === 0);
      return found.length === 2 ? found : undefined;
    });
    assert.deepEqual(rows.map(({ rank, count, flags }) => [rank, count, flags]).sort(), [
      [0, 1, 1],
      [1, 1, 1],
    ]);
    const again = await Writer.start(segments, 4096, attributes(0));
    after(() => again.kill());
    await again.send('step 1 8 req');
    await again.send('fill 2');
    await listener.until(() => jobOf('2')?.live[0] === 0);
    await collector.stop();
    const last = await listener.until(() => listener.heartbeats.find(({ stopping }) => stopping));
    assert.deepEqual([last.host, last.rows.lost, last.records.lost], ['h', 0, 0]);
    assert.equal(last.rows.sent, listener.rows.length);
    assert.deepEqual(
      listener.rows.filter(({ run, phase }) => run === '2' && phase === 'mlp').map(({ step }) => Number(step)),
      [1],
    );
  });
});
