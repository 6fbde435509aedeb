import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Bus, BusMessage } from '../../bus/bus.js';
import { partitionOf } from '../../bus/partition.js';
import { MAX_MESSAGE_BYTES } from '../../protocol/limits.js';
import {
  type BusUnderTest,
  type Context,
  type Handlers,
  message,
  newName,
  numbered,
  texts,
} from './contract-context.js';
import { failing, resetting, sharing } from './contract-groups.js';
import { eventually, gate, Recorder, textOf, within } from './recorder.js';

/** What every bus promises, whichever log is under it. */
export function busContract(name: string, skip: string | false, start: () => Promise<BusUnderTest>): void {
  describe(`${name} keeps the contract of a bus`, { skip }, () => {
    let log: BusUnderTest;
    let bus: Bus;
    before(async () => {
      log = await start();
      bus = await log.connect();
    });
    after(async () => {
      await bus?.close();
      await log?.dispose();
    });
    const topicOf = async (partitions = 1): Promise<string> => {
      const topic = newName();
      await bus.createTopics([{ topic, partitions }]);
      return topic;
    };
    const read = async (topic: string, handler: Handlers = {}, group = newName()) => {
      const recorder = new Recorder(handler);
      const consumer = await bus.consumer(group, [topic]);
      await consumer.start(recorder);
      return { consumer, recorder };
    };
    const context: Context = { bus: () => bus, log: () => log, topicOf, read };
    sending(context);
    reading(context);
    starting(context);
    resetting(context);
    sharing(context);
    failing(context);
  });
}

function sending({ bus, topicOf, read }: Context): void {
  test('a record comes with the key, value and headers it was sent with', async () => {
    const topic = await topicOf();
    const producer = await bus().producer();
    const value = Uint8Array.from({ length: 256 }, (_, i) => i);
    const headers = { 'content-type': 'application/vnd.apache.arrow.stream', größe: '→' };
    await producer.send(topic, [{ key: 'job ü', value, headers }, message('')]);
    const { consumer, recorder } = await read(topic);
    await recorder.until((r) => r.records_.length === 2, 'both records');
    const [first, second] = recorder.records_.map(({ record }) => record);
    assert.deepEqual(
      { ...first, value: [...(first?.value ?? [])] },
      { offset: 0n, key: 'job ü', value: [...value], headers },
    );
    assert.deepEqual(
      { ...second, value: [...(second?.value ?? [])] },
      { offset: 1n, key: 'job', value: [], headers: {} },
    );
    await consumer.close();
  });

  test('sends that overlap keep the order of each key, each in the partition of its key', async () => {
    const topic = await topicOf(4);
    const producer = await bus().producer();
    const keys = ['a', 'b', 'c', 'd', 'e'];
    const sends = texts(0, 60).map((text, i) => producer.send(topic, [message(text, keys[i % keys.length])]));
    await Promise.all(sends);
    const { consumer, recorder } = await read(topic);
    await recorder.until((r) => r.records_.length === 60, 'all 60 records');
    for (const [k, key] of keys.entries()) {
      const own = recorder.records_.filter(({ record }) => record.key === key);
      assert.deepEqual(
        own.map(({ record }) => Number(textOf(record))),
        texts(0, 60)
          .map(Number)
          .filter((n) => n % 5 === k),
      );
      assert.deepEqual([...new Set(own.map(({ partition }) => partition))], [`${topic}/${partitionOf(key, 4)}`]);
    }
    await consumer.close();
  });

  test('a message over the limit is refused and nothing of its send is written; one just under it is taken', async () => {
    const topic = await topicOf();
    const producer = await bus().producer();
    const sized = (bytes: number): BusMessage => ({ key: 'job', value: new Uint8Array(bytes) });
    await assert.rejects(producer.send(topic, [message('beside'), sized(MAX_MESSAGE_BYTES)]), {
      name: 'PicketError',
      code: 'too_large',
      message: /topic t-.*key "job".*8388608/,
    });
    await producer.send(topic, [sized(MAX_MESSAGE_BYTES - 200), sized(MAX_MESSAGE_BYTES - 200), message('last')]);
    const { consumer, recorder } = await read(topic);
    await recorder.until((r) => r.records_.length === 3, 'the three good messages');
    const sizes = recorder.records_.map(({ record }) => record.value.byteLength);
    assert.deepEqual(sizes, [MAX_MESSAGE_BYTES - 200, MAX_MESSAGE_BYTES - 200, 4]);
    await consumer.close();
  });

  test('topics are created once and not changed by a second wish', async () => {
    const topic = await topicOf(2);
    await bus().createTopics([
      { topic, partitions: 5 },
      { topic: newName(), partitions: 1 },
    ]);
    const { consumer, recorder } = await read(topic);
    await recorder.until((r) => r.owned.size === 2, 'two partitions');
    assert.deepEqual(recorder.assignedTo.sort(), [`${topic}/0`, `${topic}/1`]);
    await consumer.close();
  });
}

function reading({ bus, topicOf, read }: Context): void {
  test('what is sent while a consumer reads comes in order, and the lag goes to nothing', async (t) => {
    const topic = await topicOf();
    const producer = await bus().producer();
    const hold = gate(t);
    const { consumer, recorder } = await read(topic, { records: () => hold.opened });
    for (let i = 0; i < 10; i++) await producer.send(topic, numbered(i * 20, i * 20 + 20));
    await eventually(() => (consumer.health().lag.get(`${topic}/0`) ?? 0n) > 0n, 'a lag while the handler is busy');
    hold.open();
    await recorder.until((r) => r.records_.length === 200, 'all 200 records');
    assert.deepEqual(recorder.texts, texts(0, 200));
    await eventually(() => consumer.health().lag.get(`${topic}/0`) === 0n, 'no lag');
    const { joined, failed, rebalances, offsetResets } = consumer.health();
    assert.deepEqual(
      { joined, failed, rebalances, offsetResets },
      { joined: true, failed: undefined, rebalances: 0, offsetResets: 0 },
    );
    await consumer.close();
  });

  test('an idle consumer shows that it still fetches', async () => {
    const consumer = await bus().consumer(newName(), [await topicOf()]);
    await consumer.start(new Recorder());
    const { lastFetchMs } = consumer.health();
    await eventually(() => consumer.health().lastFetchMs > lastFetchMs, 'another fetch');
    await consumer.close();
  });

  test('closing waits for the call that runs; no other follows', async (t) => {
    const topic = await topicOf();
    const producer = await bus().producer();
    const hold = gate(t);
    const { consumer, recorder } = await read(topic, { records: () => hold.opened });
    await producer.send(topic, numbered(0, 1));
    await recorder.until((r) => r.records_.length === 1, 'the first record');
    await producer.send(topic, numbered(1, 50));
    let closed = false;
    const closing = consumer.close().then(() => {
      closed = true;
    });
    assert.equal(closed, false);
    hold.open();
    await within(closing, 'the close');
    assert.deepEqual(recorder.texts, ['0']);
    assert.equal(consumer.health().joined, false);
  });
}

function starting({ bus, topicOf, read }: Context): void {
  test('a group goes on at its committed offset, another at the earliest record', async () => {
    const topic = await topicOf();
    const producer = await bus().producer();
    await producer.send(topic, numbered(0, 10));
    const group = newName();
    const { consumer, recorder: first } = await read(topic, {}, group);
    await first.until((r) => r.records_.length === 10, 'all records');
    await consumer.commit({ topic, partition: 0 }, 6n);
    await consumer.close();
    for (const [of, from] of [
      [group, 6],
      [newName(), 0],
    ] as const) {
      const { consumer: again, recorder: next } = await read(topic, {}, of);
      await next.until((r) => r.texts.at(-1) === '9', 'the last record');
      assert.deepEqual(next.texts, texts(from, 10));
      await again.close();
    }
  });

  test("the handler's offset counts for more than the committed one, be it before or after", async () => {
    const topic = await topicOf();
    const producer = await bus().producer();
    await producer.send(topic, numbered(0, 10));
    const group = newName();
    for (const start of [7n, 2n, 0n]) {
      const { consumer, recorder } = await read(topic, { assigned: async () => start }, group);
      await recorder.until((r) => r.texts.at(-1) === '9', 'the last record');
      assert.deepEqual(recorder.texts, texts(Number(start), 10));
      await consumer.commit({ topic, partition: 0 }, 5n);
      await consumer.close();
    }
  });

  test('nothing is delivered before the handler has said where to start', async (t) => {
    const topic = await topicOf();
    const producer = await bus().producer();
    await producer.send(topic, numbered(0, 10));
    const answer = gate(t);
    const recorder = new Recorder({ assigned: () => answer.opened.then(() => 4n) });
    const consumer = await bus().consumer(newName(), [topic]);
    const started = consumer.start(recorder);
    await recorder.until((r) => r.owned.size === 1, 'the partition');
    await producer.send(topic, numbered(10, 12));
    assert.deepEqual(recorder.texts, []);
    answer.open();
    await started;
    await recorder.until((r) => r.texts.at(-1) === '11', 'the last record');
    assert.deepEqual(recorder.texts, texts(4, 12));
    await consumer.close();
  });
}
