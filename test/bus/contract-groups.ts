import assert from 'node:assert/strict';
import { test } from 'node:test';
import { partitionOf } from '../../bus/partition.js';
import { type Context, message, newName, numbered, texts } from './contract-context.js';
import { eventually, gate, Recorder } from './recorder.js';

/* What a bus promises where offsets are lost, consumers share a group, or something fails. */

export function resetting({ bus, log, topicOf, read }: Context): void {
  test('where retention has taken the wanted offset, reading starts at the earliest and the reset is counted', async () => {
    const topic = await topicOf();
    const producer = await bus().producer();
    for (let i = 0; i < 10; i++) await producer.send(topic, numbered(i, i + 1));
    const group = newName();
    const consumer = await bus().consumer(group, [topic]);
    await consumer.start(new Recorder());
    await consumer.commit({ topic, partition: 0 }, 3n);
    await consumer.close();
    await log().trim(topic, 0, 6n);
    for (const assigned of [undefined, 2n, 1000n]) {
      const { consumer: again, recorder } = await read(topic, { assigned: async () => assigned }, group);
      await recorder.until((r) => r.texts.at(-1) === '9', 'the last record');
      assert.deepEqual(recorder.texts, texts(6, 10));
      assert.equal(again.health().offsetResets, 1);
      await again.close();
    }
  });

  test('where retention overtakes a slow reader, it goes on at the earliest and the reset is counted', async (t) => {
    const topic = await topicOf();
    const producer = await bus().producer();
    const hold = gate(t);
    const { consumer, recorder } = await read(topic, { records: () => hold.opened });
    await producer.send(topic, numbered(0, 1));
    await recorder.until((r) => r.records_.length === 1, 'the first record');
    for (let i = 1; i < 10; i++) await producer.send(topic, numbered(i, i + 1));
    await log().trim(topic, 0, 7n);
    hold.open();
    await recorder.until((r) => r.texts.at(-1) === '9', 'the last record');
    assert.deepEqual(recorder.texts, ['0', ...texts(7, 10)]);
    assert.equal(consumer.health().offsetResets, 1);
    await consumer.close();
  });
}

export function sharing({ bus, log, topicOf }: Context): void {
  test('consumers of a group share the partitions, one that comes or goes loses no record', async () => {
    const topic = await topicOf(4);
    const producer = await bus().producer();
    const keys = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
    assert.equal(new Set(keys.map((key) => partitionOf(key, 4))).size, 4);
    const sendRound = (round: number) =>
      producer.send(
        topic,
        keys.map((key) => message(`${key}${round}`, key)),
      );
    const group = newName();
    const join = async () => {
      const own = await log().connect();
      const consumer = await own.consumer(group, [topic]);
      const recorder: Recorder = new Recorder({
        records: (partition, records) => consumer.commit(partition, (records.at(-1)?.offset ?? -1n) + 1n),
      });
      await consumer.start(recorder);
      return { recorder, leave: () => own.close() };
    };
    const first = await join();
    await first.recorder.until((r) => r.owned.size === 4, 'all partitions for the only one');
    await sendRound(0);
    await first.recorder.until((r) => r.records_.length >= 8, 'the first round');
    const second = await join();
    await sendRound(1);
    await second.recorder.until((r) => r.owned.size === 2, 'half of the partitions');
    await first.recorder.until((r) => r.owned.size === 2, 'the other half');
    assert.deepEqual(
      [...first.recorder.owned, ...second.recorder.owned].sort(),
      [0, 1, 2, 3].map((p) => `${topic}/${p}`),
    );
    await sendRound(2);
    const seen = () => new Set([...first.recorder.texts, ...second.recorder.texts]);
    await eventually(() => seen().size === 24, 'three rounds');
    await first.leave();
    await second.recorder.until((r) => r.owned.size === 4, 'all partitions for the one that stays');
    await sendRound(3);
    await eventually(() => seen().size === 32, 'four rounds');
    for (const { recorder } of [first, second])
      for (const partition of [0, 1, 2, 3]) {
        const offsets = recorder.records_
          .filter((r) => r.partition === `${topic}/${partition}`)
          .map((r) => r.record.offset);
        assert.deepEqual(
          offsets,
          [...new Set(offsets)].sort((a, b) => Number(a - b)),
          'each consumer reads forwards',
        );
      }
    await second.leave();
  });
}

export function failing({ bus, topicOf, read }: Context): void {
  test('a throw of the handler stops the consumer for good, and its health says why', async () => {
    const topic = await topicOf();
    const producer = await bus().producer();
    await producer.send(topic, numbered(0, 3));
    const group = newName();
    const { consumer, recorder } = await read(
      topic,
      { records: () => Promise.reject(new Error('the store is full')) },
      group,
    );
    await eventually(() => consumer.health().failed !== undefined && !consumer.health().joined, 'the failure');
    assert.equal(consumer.health().failed?.message, 'the store is full');
    const calls = recorder.records_.length;
    const { consumer: other, recorder: next } = await read(topic, {}, group);
    await next.until((r) => r.records_.length === 3, 'the same records at another consumer');
    assert.equal(recorder.records_.length, calls);
    await consumer.close();
    await other.close();
  });

  test('a throw of assigned() is as fatal', async () => {
    const topic = await topicOf();
    const recorder = new Recorder({ assigned: () => Promise.reject(new Error('no store')) });
    const consumer = await bus().consumer(newName(), [topic]);
    await consumer.start(recorder).catch((error: Error) => assert.equal(error.message, 'no store'));
    await eventually(() => consumer.health().failed?.message === 'no store', 'the failure');
    await consumer.close();
  });

  test('a topic that is not there is named, to the sender and to the reader', async () => {
    const producer = await bus().producer();
    const expected = { name: 'PicketError', code: 'not_found', message: /no topic t-absent/ };
    await assert.rejects(producer.send('t-absent', [message('x')]), expected);
    await assert.rejects(async () => {
      const consumer = await bus().consumer(newName(), ['t-absent']);
      await consumer.start(new Recorder());
    }, expected);
  });
}
