import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { BusRecord } from '../../bus/bus.js';
import { openBus } from '../../bus/open.js';
import { analyze } from '../../cli/analyze.js';
import { publish } from '../../cli/publish.js';
import { importPaths } from '../../importers/index.js';
import type { PhaseBatch } from '../../protocol/phase-batch.js';
import { DEAD_LETTER_HEADERS, deadLetterTopic, TOPICS } from '../../protocol/topics.js';
import { simulate } from '../../simulator/simulate.js';
import { DetectorProcess } from '../support/detector-process.js';
import { KafkaBroker, needsKafka } from '../support/kafka-broker.js';
import { sharedData } from '../support/shared-data.js';
import { judge } from '../support/trace.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';

/** The whole path over a real broker: `picket replay` to `picket detector` to a webhook receiver. */

const EXCERPT = resolve('fixtures/h200-tp2-excerpt');
const traces: { name: string; paths: string[]; scenario?: string; skip: string | false }[] = [
  { name: 'the bundled excerpt', paths: [EXCERPT], skip: false },
  ...[{ data: 'h200-tp2', scenario: 'host_straggler' }, { data: 'ndtimeline/stage-imbalance.parquet' }].map(
    ({ data, ...rest }) => ({ name: data, paths: [sharedData(data).path], ...rest, skip: sharedData(data).skip }),
  ),
];

async function publishAll(
  broker: KafkaBroker,
  batches: AsyncIterable<PhaseBatch> | Iterable<PhaseBatch>,
): Promise<void> {
  const bus = await openBus({ kind: 'kafka', brokers: broker.brokers });
  await publish(await bus.producer(), batches, undefined);
  await bus.close();
}

const simulated = (job: string) => simulate({ scenario: 'straggler', ranks: 8, steps: 120, seed: 3, job });

describe('over Apache Kafka', needsKafka, () => {
  let broker: KafkaBroker;
  before(async () => {
    broker = await KafkaBroker.start();
  });
  after(() => broker?.dispose());

  const detectorFor = (group: string, receiver: WebhookReceiver): DetectorProcess =>
    new DetectorProcess({ kind: 'kafka', brokers: broker.brokers }, [receiver], { group, partitions: 3 });

  for (const { name, paths, scenario, skip } of traces)
    it(`finds in ${name} what analyze finds, and tells a receiver`, { skip }, async () => {
      const { incidents: expected } = await analyze(paths, { scenario });
      const receiver = await WebhookReceiver.start();
      const detector = detectorFor(`group-${name.replace(/\W/g, '-')}`, receiver);
      after(() => Promise.all([detector.close(), receiver.close()]));
      await detector.start();
      await publishAll(broker, importPaths(paths, { scenario, windowRows: 2000 }));
      const ids = expected.map(({ id }) => id);
      const found = await detector.incidentsUntil((incidents) =>
        ids.every((id) => incidents.some((one) => one.id === id)),
      );
      const jobs = new Set(expected.map(({ subject }) => subject.job));
      const ofThisTrace = found.filter(({ kind, subject }) => kind !== 'data_quality' && jobs.has(subject.job));
      assert.deepEqual(ofThisTrace.map(({ id }) => id).sort(), [...ids].sort());
      await receiver.idsUntil(1);
      const told = receiver.received.map(({ body }) => body);
      assert.ok(told.every(({ version }) => version === '4'));
      assert.ok(told.some(({ alerts }) => alerts.some(({ labels }) => labels.incident_id === ids[0])));
      assert.deepEqual(receiver.refused, []);
    });

  it('loses nothing when the broker restarts in the middle', async () => {
    const ids = judge(simulated('restarted')).incidents.map(({ id }) => id);
    assert.equal(ids.length, 1);
    const receiver = await WebhookReceiver.start();
    const detector = detectorFor('group-restart', receiver);
    after(() => Promise.all([detector.close(), receiver.close()]));
    await detector.start();
    const batches = [...simulated('restarted')];
    const half = batches.length >> 1;
    const interrupted = (async function* () {
      yield* batches.slice(0, half);
      await broker.restart();
      yield* batches.slice(half);
    })();
    await publishAll(broker, interrupted);
    const found = await detector.incidentsUntil((incidents) =>
      ids.every((id) => incidents.some((one) => one.id === id)),
    );
    const ofThisJob = found.filter(({ kind, subject }) => kind !== 'data_quality' && subject.job === 'restarted');
    assert.deepEqual(
      ofThisJob.map(({ id }) => id),
      ids,
    );
  });

  it('puts a message that nobody can read aside and goes on', async () => {
    const receiver = await WebhookReceiver.start();
    const detector = detectorFor('group-poison', receiver);
    after(() => Promise.all([detector.close(), receiver.close()]));
    await detector.start();
    const bus = await openBus({ kind: 'kafka', brokers: broker.brokers });
    const poison = Buffer.from('"{\\"device\\": \\"cpu\\"}(12): run"');
    await (await bus.producer()).send(TOPICS.phases, [{ key: 'poisoned', value: poison }]);
    await publishAll(broker, simulated('poisoned'));
    await detector.incidentsUntil((incidents) => incidents.some(({ subject }) => subject.job === 'poisoned'));
    const letters = await bus.consumer('dead-letter-reader', [deadLetterTopic(TOPICS.phases)]);
    const letter = await new Promise<BusRecord>((resolve) => {
      void letters.start({
        assigned: async () => undefined,
        revoked: async () => {},
        records: async (_, [record]) => {
          if (record) resolve(record);
        },
      });
    });
    await bus.close();
    assert.deepEqual(Buffer.from(letter.value), poison);
    assert.equal(letter.headers?.[DEAD_LETTER_HEADERS.topic], TOPICS.phases);
    assert.match(letter.headers?.[DEAD_LETTER_HEADERS.offset] ?? '', /^\d+$/);
  });
});
