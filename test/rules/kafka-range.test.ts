import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Kafka, logLevel } from 'kafkajs';
import { openBus } from '../../bus/open.js';
import { publish } from '../../cli/publish.js';
import { readKafkaRange } from '../../cli/rules/kafka-range.js';
import type { PhaseBatch } from '../../protocol/phase-batch.js';
import { TOPICS } from '../../protocol/topics.js';
import { KafkaBroker, needsKafka } from '../support/kafka-broker.js';
import { trace } from '../support/trace.js';
import { folderOf, picket } from './support.js';

function* rows(job: string, slow: boolean): Generator<PhaseBatch> {
  const batches = trace({
    ...{ ranks: 4, steps: 80, period: 60 },
    phases: (step, rank) => {
      const ms = slow && rank === 2 && step >= 40 ? 60 : 40;
      return [
        { phase: 'forward', ms },
        { phase: 'all_reduce', ms: 62 - ms },
      ];
    },
  });
  for (const batch of batches) yield { ...batch, meta: { ...batch.meta, job } };
}

/** A time after which nothing was published yet. */
async function nextMillisecond(): Promise<number> {
  const now = Date.now();
  while (Date.now() <= now) await new Promise((done) => setImmediate(done));
  return now + 1;
}

it(
  'a backtest reads what was published to Kafka in a time range, and leaves no group behind',
  needsKafka,
  async (t) => {
    const broker = await KafkaBroker.start();
    t.after(() => broker.dispose());
    const { brokers } = broker;
    const bus = await openBus({ kind: 'kafka', brokers });
    t.after(() => bus.close());
    await bus.createTopics([{ topic: TOPICS.phases, partitions: 3 }]);
    const producer = await bus.producer();
    await publish(producer, rows('before', true), undefined);
    const sinceMs = await nextMillisecond();
    await publish(producer, rows('within', true), undefined);
    await publish(producer, rows('healthy', false), undefined);
    await producer.send(TOPICS.phases, [{ key: 'within', value: Buffer.from('no rows') }]);
    const untilMs = await nextMillisecond();
    await publish(producer, rows('after', true), undefined);

    const jobsOf = async (range: { sinceMs?: number; untilMs?: number }): Promise<Record<string, number>> => {
      const jobs: Record<string, number> = {};
      const { unreadable } = await readKafkaRange(
        { brokers, sinceMs: range.sinceMs, untilMs: range.untilMs },
        ({ meta, length }) => {
          jobs[meta.job] = (jobs[meta.job] ?? 0) + length;
        },
      );
      return { ...jobs, unreadable };
    };
    assert.deepEqual(await jobsOf({ sinceMs, untilMs }), { within: 640, healthy: 640, unreadable: 1 });
    assert.deepEqual(await jobsOf({}), { before: 640, within: 640, healthy: 640, after: 640, unreadable: 1 });
    assert.deepEqual(await jobsOf({ sinceMs: Date.now() + 3_600_000 }), { unreadable: 0 });

    const folder = folderOf(t, {
      'rules/r.yml': 'apiVersion: picket/v1\ngroups: [{name: g, rules: [{id: slow, kind: straggler}]}]\n',
    });
    const range = ['--since', new Date(sinceMs).toISOString(), '--until', new Date(untilMs).toISOString()];
    const { exit, out, err } = picket(['rules', 'backtest', '--brokers', brokers.join(','), ...range], folder);
    assert.equal(exit, 0, err);
    assert.match(out, /1,280 rows, .*1 incident, 1 of them alerts/);
    assert.match(out, /critical within, rule slow/);
    assert.match(err, /1 messages could not be read/);
    const admin = new Kafka({ brokers, logLevel: logLevel.NOTHING }).admin();
    await admin.connect();
    const { groups } = await admin.listGroups();
    await admin.disconnect();
    assert.deepEqual(
      groups.filter(({ groupId }) => groupId.startsWith('picket-backtest')),
      [],
    );
  },
);
