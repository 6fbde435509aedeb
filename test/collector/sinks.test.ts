import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { openBus } from '../../bus/open.js';
import { BusSink } from '../../collector/bus-sink.js';
import { FileSink } from '../../collector/file-sink.js';
import { type Message, messagesOf } from '../../collector/message.js';
import { decodePhases } from '../../protocol/arrow.js';
import { newJobMeta } from '../../protocol/job-meta.js';
import { TOPICS } from '../../protocol/topics.js';
import { batchOf } from '../protocol/rows.js';
import { KafkaBroker, needsKafka } from '../support/kafka-broker.js';
import { folder } from './support.js';

const messageOf = (step: number, job = 'job'): Message =>
  messagesOf(batchOf([{ step }], newJobMeta(job)), TOPICS.phases).messages[0] as Message;

describe('Arrow files', () => {
  it('hold a message each, the oldest go beyond the bound, and the heartbeat stands beside them', async () => {
    const dir = join(folder(), 'out');
    const bytes = messageOf(0).value.length;
    let nowMs = 1000;
    const sink = new FileSink(dir, 3.5 * bytes, () => nowMs);
    for (let step = 0; step < 5; step++) {
      nowMs++;
      await sink.send([messageOf(step, 'a job/x')]);
    }
    await sink.send([{ topic: TOPICS.collectors, key: 'h', value: Buffer.from('{"host": "h"}'), rows: 0 }]);
    const names = readdirSync(dir).sort();
    assert.deepEqual(names, [
      'a_job_x-1003-2.arrows',
      'a_job_x-1004-3.arrows',
      'a_job_x-1005-4.arrows',
      'collector.json',
    ]);
    const { meta, columns } = decodePhases(readFileSync(join(dir, names[2] as string)));
    assert.deepEqual([meta.job, columns.step.number(0)], ['a job/x', 4]);
    // One that is started later goes on with the bound.
    await new FileSink(dir, 2.5 * bytes, () => 2000).send([messageOf(5)]);
    assert.deepEqual(
      readdirSync(dir).filter((name) => name.endsWith('.arrows')),
      ['a_job_x-1005-4.arrows', 'job-2000-0.arrows'],
    );
  });
});

/** Steps of the messages on the topic of phases, until there are so many. */
async function stepsOn(bus: Awaited<ReturnType<typeof openBus>>, count: number): Promise<number[]> {
  const steps: number[] = [];
  const consumer = await bus.consumer('test', [TOPICS.phases]);
  await new Promise<void>((resolve, reject) => {
    const records = async (_: unknown, found: readonly { value: Uint8Array }[]) => {
      for (const { value } of found) steps.push(decodePhases(value).columns.step.number(0));
      if (steps.length >= count) resolve();
    };
    consumer.start({ assigned: async () => undefined, revoked: async () => {}, records }).catch(reject);
  });
  await consumer.close();
  return steps;
}

describe('a bus', () => {
  it('that cannot be opened is tried again with the next message; its topics are made', async () => {
    const bus = await openBus({ kind: 'embedded', dir: folder(), pollMs: 10 });
    after(() => bus.close());
    let tries = 0;
    const open = async () => {
      if (++tries < 3) throw new Error('not there');
      return bus;
    };
    const sink = new BusSink('embedded', open, [{ topic: TOPICS.phases, partitions: 1 }]);
    for (let i = 0; i < 2; i++) await assert.rejects(sink.send([messageOf(0)]), /not there/);
    await Promise.all([sink.send([messageOf(0), messageOf(1)]), sink.send([messageOf(2)])]);
    assert.deepEqual(await stepsOn(bus, 3), [0, 1, 2]);
    assert.equal(tries, 3);
  });

  it('of Kafka that is away at first and later takes what comes once it is there', needsKafka, async () => {
    const broker = await KafkaBroker.start();
    after(() => broker.dispose());
    await broker.stop();
    const options = { kind: 'kafka', brokers: broker.brokers, retries: 0 } as const;
    const sink = new BusSink('kafka', () => openBus(options), [{ topic: TOPICS.phases, partitions: 1 }]);
    after(() => sink.close());
    await assert.rejects(sink.send([messageOf(0)]));
    await broker.up();
    await sink.send([messageOf(0)]);
    await broker.stop();
    await assert.rejects(sink.send([messageOf(1)]));
    await broker.up();
    const end = performance.now() + 60_000;
    for (;;) {
      const sent = await sink.send([messageOf(1)]).then(
        () => true,
        () => false,
      );
      if (sent) break;
      assert.ok(performance.now() < end, 'the sink never recovers');
    }
    const bus = await openBus({ kind: 'kafka', brokers: broker.brokers });
    after(() => bus.close());
    const steps = await stepsOn(bus, 2);
    assert.deepEqual([steps[0], steps.at(-1)], [0, 1]);
  });
});
