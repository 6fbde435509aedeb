import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { openBus } from '../../bus/open.js';
import { analyze } from '../../cli/analyze.js';
import { publish } from '../../cli/publish.js';
import { FAIL_POINTS } from '../../detector/failpoints.js';
import { importPaths } from '../../importers/index.js';
import type { Incident } from '../../protocol/incident.js';
import type { PhaseBatch } from '../../protocol/phase-batch.js';
import { TOPICS } from '../../protocol/topics.js';
import { DetectorProcess } from '../support/detector-process.js';
import { mulberry32 } from '../support/trace.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';

/** A recorded trace through a detector that is killed: the same incidents as without, none lost and none twice. */

const EXCERPT = resolve('fixtures/h200-tp2-excerpt');
const KILLS = 20;
/** After it is ready; what is published meanwhile takes about half of it. */
const MAX_LIFE_MS = 300;

const essence = ({ id, kind, subject, onset_step, detected_step }: Incident) => ({
  id,
  kind,
  ranks: subject.ranks,
  onset_step,
  detected_step,
});

let expected: Incident[];
const messages: PhaseBatch[] = [];
before(async () => {
  for await (const batch of importPaths([EXCERPT], { windowRows: 500 })) messages.push(batch);
  const { incidents, quality } = await analyze([EXCERPT], {});
  expected = [...incidents, ...quality];
  assert.ok(incidents.length > 0, 'the excerpt holds an incident');
});

/** Publishes some of the excerpt's messages to the embedded log. */
async function publishMessages(dir: string, messages: readonly PhaseBatch[]): Promise<void> {
  const bus = await openBus({ kind: 'embedded', dir, fsync: 'never' });
  await bus.createTopics([{ topic: TOPICS.phases, partitions: 2 }]);
  await publish(await bus.producer(), messages, undefined);
  await bus.close();
}

describe('a detector killed while it works', () => {
  it(`finds the same after ${KILLS} kills at random moments`, async () => {
    const receiver = await WebhookReceiver.start();
    const detector = new DetectorProcess({ kind: 'embedded', dir: '', fsync: 'never' }, [receiver], {
      checkpoint_seconds: 0.05,
    });
    after(() => Promise.all([detector.close(), receiver.close()]));
    const random = mulberry32(7);
    const each = Math.floor(messages.length / (KILLS + 1));
    for (let kill = 0; kill < KILLS; kill++) {
      await detector.start();
      const publishing = publishMessages(detector.logDir, messages.slice(kill * each, (kill + 1) * each));
      await new Promise((resolve) => setTimeout(resolve, MAX_LIFE_MS * random()));
      await detector.kill();
      await publishing;
    }
    await publishMessages(detector.logDir, messages.slice(KILLS * each));
    await detector.start();
    const found = await detector.incidentsUntil((incidents) => incidents.length >= expected.length);
    assert.deepEqual(found.map(essence), expected.map(essence));
    const ids = await receiver.idsUntil(notifiable());
    assert.equal(ids.size, notifiable());
    assert.deepEqual(receiver.refused, []);
  });

  for (const point of FAIL_POINTS)
    it(`finds the same after a kill at ${point}`, async () => {
      const receiver = await WebhookReceiver.start();
      const detector = new DetectorProcess({ kind: 'embedded', dir: '', fsync: 'never' }, [receiver]);
      after(() => Promise.all([detector.close(), receiver.close()]));
      await publishMessages(detector.logDir, messages);
      await detector.start({ PICKET_FAILPOINT: `${point}:1` });
      await detector.exited();
      await detector.start();
      const found = await detector.incidentsUntil((incidents) => incidents.length >= expected.length);
      assert.deepEqual(found.map(essence), expected.map(essence));
      const ids = await receiver.idsUntil(notifiable());
      assert.equal(ids.size, notifiable());
      assert.deepEqual(receiver.refused, []);
    });
});

/** The receiver asked for every severity; data quality and changes of severity downwards are told to nobody. */
const notifiable = (): number =>
  expected.reduce((sum, { timeline }) => sum + timeline.filter(({ event }) => event !== 'eased').length, 0);
