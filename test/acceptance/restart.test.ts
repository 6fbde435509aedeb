import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { openBus } from '../../bus/open.js';
import { analyze } from '../../cli/analyze.js';
import { publish } from '../../cli/publish.js';
import { FAIL_POINTS } from '../../detector/failpoints.js';
import { importPaths } from '../../importers/index.js';
import type { Incident } from '../../protocol/incident.js';
import { TOPICS } from '../../protocol/topics.js';
import { DetectorProcess } from '../support/detector-process.js';
import { mulberry32 } from '../support/trace.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';

/** A recorded trace through a detector that is killed: the same incidents as without, none lost and none twice. */

const EXCERPT = resolve('fixtures/h200-tp2-excerpt');
const KILLS = 20;

const essence = ({ id, kind, subject, onset_step, detected_step }: Incident) => ({
  id,
  kind,
  ranks: subject.ranks,
  onset_step,
  detected_step,
});

let expected: Incident[];
before(async () => {
  const { incidents, quality } = await analyze([EXCERPT], {});
  expected = [...incidents, ...quality];
  assert.ok(incidents.length > 0, 'the excerpt holds an incident');
});

async function publishExcerpt(dir: string, speed: number | undefined): Promise<void> {
  const bus = await openBus({ kind: 'embedded', dir, fsync: 'never' });
  await bus.createTopics([{ topic: TOPICS.phases, partitions: 2 }]);
  await publish(await bus.producer(), importPaths([EXCERPT], { windowRows: 500 }), speed);
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
    let publishing = true;
    const published = publishExcerpt(detector.logDir, 0.03).then(() => {
      publishing = false;
    });
    let kills = 0;
    while (kills < KILLS) {
      await detector.start();
      await new Promise((resolve) => setTimeout(resolve, 600 * random()));
      await detector.kill();
      kills++;
    }
    assert.ok(publishing, 'all kills came while rows were still coming');
    await published;
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
      await publishExcerpt(detector.logDir, undefined);
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
