import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { Kafka, logLevel, PartitionAssigners } from 'kafkajs';
import type { Bus, BusMessage } from '../../../bus/bus.js';
import { openBus } from '../../../bus/open.js';
import { KafkaBroker, needsKafka } from '../../support/kafka-broker.js';
import { eventually, gate, Recorder, within } from '../recorder.js';

const SHORT_SESSION_MS = 1000;

const numbered = (from: number, to: number): BusMessage[] =>
  Array.from({ length: to - from }, (_, i) => ({ key: 'job', value: Buffer.from(String(from + i)) }));
const texts = (from: number, to: number): string[] => numbered(from, to).map(({ value }) => String(value));

describe('a Kafka consumer', needsKafka, () => {
  let broker: KafkaBroker;
  let bus: Bus;
  const logged: string[] = [];
  before(async () => {
    broker = await KafkaBroker.start({ properties: { 'group.min.session.timeout.ms': String(SHORT_SESSION_MS) } });
    bus = await connect();
  });
  after(async () => {
    await bus?.close();
    await broker?.dispose();
  });
  const connect = (sessionTimeoutMs = 6000): Promise<Bus> =>
    openBus({
      kind: 'kafka',
      brokers: broker.brokers,
      heartbeatIntervalMs: 100,
      sessionTimeoutMs,
      log: (_, message) => logged.push(message),
    });
  const newTopic = async (partitions = 1): Promise<string> => {
    const topic = `t-${randomUUID()}`;
    await bus.createTopics([{ topic, partitions }]);
    return topic;
  };
  const context = { broker: () => broker, bus: () => bus, logged, connect, newTopic };
  restarts(context);
  rebalances(context);
  expires(context);
  refusal(context);
});

interface Context {
  broker(): KafkaBroker;
  bus(): Bus;
  logged: readonly string[];
  connect(sessionTimeoutMs: number): Promise<Bus>;
  newTopic(partitions?: number): Promise<string>;
}

function restarts({ broker, bus, newTopic }: Context): void {
  for (const how of ['stop', 'kill'] as const) {
    test(`goes on where it was after the broker's ${how} and return`, async () => {
      const topic = await newTopic();
      const producer = await bus().producer();
      await producer.send(topic, numbered(0, 100));
      const recorder = new Recorder({
        records: (partition, records) => consumer.commit(partition, (records.at(-1)?.offset ?? -1n) + 1n),
        assigned: async () => (recorder.offsets.at(-1) ?? -1n) + 1n,
      });
      const consumer = await bus().consumer(`g-${topic}`, [topic]);
      await consumer.start(recorder);
      await recorder.until((r) => r.records_.length >= 50, 'the first records');
      await broker()[how]();
      const sending = producer.send(topic, numbered(100, 200));
      await broker().up();
      await within(sending, 'the records sent while the broker was away');
      await producer.send(topic, numbered(200, 210));
      await recorder.until((r) => r.texts.at(-1) === '209', 'the last record');
      assert.deepEqual([...new Set(recorder.texts)], texts(0, 210));
      assert.deepEqual(
        [...recorder.offsets],
        [...recorder.offsets].sort((a, b) => Number(a - b)),
      );
      const { failed, offsetResets } = consumer.health();
      assert.deepEqual({ failed, offsetResets }, { failed: undefined, offsetResets: 0 });
      await consumer.close();
    });
  }
}

function rebalances({ bus, logged, newTopic }: Context): void {
  test('stops in the midst of a batch when another consumer joins: one rebalance, no loop', async (t) => {
    const topic = await newTopic(2);
    const producer = await bus().producer();
    const sent = Array.from({ length: 2000 }, (_, i) => ({ key: `k${i % 7}`, value: Buffer.from(`${i}`) }));
    await producer.send(topic, sent);
    const hold = gate(t);
    let atRevocation = -1;
    const slow = new Recorder({
      records: () => hold.opened,
      revoked: async () => {
        atRevocation = slow.records_.length;
      },
    });
    const first = await bus().consumer(`g-${topic}`, [topic]);
    await first.start(slow);
    await slow.until((r) => r.records_.length > 0, 'the first call');
    const before = slow.records_.length;
    assert.ok(before < 100, 'one call gets a part of the batch');
    const fast = new Recorder();
    const second = await bus().consumer(`g-${topic}`, [topic]);
    const joining = second.start(fast);
    const news = /Heartbeat.*rebalancing/;
    await eventually(() => logged.some((line) => news.test(line)), 'a heartbeat that tells of the rebalance');
    hold.open();
    await within(joining, 'the second consumer');
    await slow.until((r) => r.revokedFrom.length === 1, 'one partition less');
    assert.equal(atRevocation, before, 'nothing more of the batch was delivered');
    await eventually(() => new Set([...slow.texts, ...fast.texts]).size === 2000, 'all records');
    assert.deepEqual([first.health().rebalances, second.health().rebalances], [1, 0]);
    assert.deepEqual(slow.assignedTo.length, 2, 'the partition that stayed was not assigned again');
    const stayed = slow.records_.filter(({ partition }) => partition !== slow.revokedFrom[0]);
    assert.deepEqual(
      stayed.map(({ record }) => record.offset),
      stayed.map((_, i) => BigInt(i)),
      'nor read again',
    );
    await first.close();
    await second.close();
  });
}

function expires({ bus, connect, newTopic }: Context): void {
  test('that was taken for dead begins anew with what its handler says', async () => {
    const topic = await newTopic();
    const producer = await bus().producer();
    await producer.send(topic, numbered(0, 100));
    let blocked = false;
    const recorder = new Recorder({
      assigned: async () => 10n,
      records: async () => {
        if (blocked) return;
        blocked = true;
        // Holds the event loop, heartbeats and all, until long after the session's end.
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4 * SHORT_SESSION_MS);
      },
    });
    const hasty = await connect(SHORT_SESSION_MS);
    const consumer = await hasty.consumer(`g-${topic}`, [topic]);
    await consumer.start(recorder);
    await recorder.until((r) => r.assignedTo.length === 2, 'the second assignment');
    const expected = recorder.texts.length;
    assert.deepEqual(recorder.revokedFrom, [`${topic}/0`]);
    await recorder.until((r) => r.records_.length === expected + 90, 'all records again');
    assert.deepEqual(recorder.texts.slice(expected), texts(10, 100));
    await consumer.close();
  });
}

function refusal({ broker, bus, newTopic }: Context): void {
  test('that the group refuses says so at its start', async (t) => {
    const topic = await newTopic();
    const { roundRobin } = PartitionAssigners;
    const other = new Kafka({ brokers: broker().brokers, logLevel: logLevel.NOTHING }).consumer({
      groupId: `g-${topic}`,
      maxWaitTimeInMs: 100,
      partitionAssigners: [
        (config) => ({
          ...roundRobin(config),
          name: 'Other',
          protocol: (subscription) => ({ ...roundRobin(config).protocol(subscription), name: 'Other' }),
        }),
      ],
    });
    t.after(() => other.disconnect());
    await other.connect();
    await other.subscribe({ topics: [topic] });
    await other.run({ eachMessage: async () => {} });
    const consumer = await bus().consumer(`g-${topic}`, [topic]);
    const expected = { code: 'bus_unavailable', message: new RegExp(`Kafka at ${broker().brokers[0]}: .*protocol`) };
    await assert.rejects(consumer.start(new Recorder()), expected);
    assert.equal(consumer.health().joined, false);
    assert.match(consumer.health().failed?.message ?? '', expected.message);
  });
}
