import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { after, it } from 'node:test';
import type { BusRecord } from '../../bus/bus.js';
import { openBus } from '../../bus/open.js';
import { publish } from '../../cli/publish.js';
import { importPaths } from '../../importers/index.js';
import { Incident } from '../../protocol/incident.js';
import type { PhaseBatch } from '../../protocol/phase-batch.js';
import { TOPICS } from '../../protocol/topics.js';
import { DetectorProcess } from '../support/detector-process.js';

const EXCERPT = resolve('fixtures/h200-tp2-excerpt');

/** Reads the topic of incidents until what came satisfies. */
async function published(dir: string, satisfied: (records: readonly BusRecord[]) => boolean): Promise<BusRecord[]> {
  const bus = await openBus({ kind: 'embedded', dir, fsync: 'never' });
  const seen: BusRecord[] = [];
  const consumer = await bus.consumer(`reader-${process.hrtime.bigint()}`, [TOPICS.incidents]);
  await new Promise<void>((done) => {
    void consumer.start({
      assigned: async () => 0n,
      revoked: async () => {},
      records: async (_, records) => {
        seen.push(...records);
        if (satisfied(seen)) done();
      },
    });
  });
  await bus.close();
  return seen;
}

const incidentIn = ({ value }: BusRecord): Incident => Incident.parse(JSON.parse(new TextDecoder().decode(value)));
const newestEvent = ({ timeline, status }: Incident): string =>
  status === 'acknowledged' ? 'acknowledged' : (timeline.at(-1)?.event as string);

it('an acknowledgement outlasts what the detector writes and its death, and changes are published', async () => {
  const messages: PhaseBatch[] = [];
  for await (const batch of importPaths([EXCERPT], { windowRows: 500 })) messages.push(batch);
  const detector = new DetectorProcess({ kind: 'embedded', dir: '', fsync: 'never' }, [], { checkpoint_seconds: 0.05 });
  after(() => detector.close());
  const send = async (batches: readonly PhaseBatch[]): Promise<void> => {
    const bus = await openBus({ kind: 'embedded', dir: detector.logDir, fsync: 'never' });
    await publish(await bus.producer(), batches, undefined);
    await bus.close();
  };
  const straggler = (incidents: readonly Incident[]): Incident | undefined =>
    incidents.find(({ kind }) => kind === 'straggler');
  await detector.start();
  const half = Math.ceil(messages.length * 0.7);
  await send(messages.slice(0, half));
  const { id, last_step } = straggler(await detector.incidentsUntil((all) => straggler(all) !== undefined)) as Incident;
  const acknowledge = (body: object): Promise<Response> =>
    fetch(`${detector.url}/v1/incidents/${id}/ack`, {
      ...{ method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } },
    });
  assert.equal((await acknowledge({ note: 'mine' })).status, 400, 'who it is must be said');
  assert.equal((await acknowledge({ author: 'kim', note: 'looking' })).status, 200);
  assert.equal((await acknowledge({ author: 'lee' })).status, 200, 'the first one stays');

  await detector.kill();
  await detector.start();
  await send(messages.slice(half));
  const later = straggler(
    await detector.incidentsUntil((all) => (straggler(all)?.last_step ?? 0) > last_step),
  ) as Incident;
  assert.equal(later.status, 'acknowledged');
  const entries = later.timeline.filter(({ event }) => event === 'acknowledged');
  assert.deepEqual(
    entries.map(({ note }) => note),
    ['kim: looking'],
  );
  const listed = await fetch(`${detector.url}/v1/incidents?status=acknowledged`);
  assert.deepEqual(
    ((await listed.json()) as { items: Incident[] }).items.map((each) => each.id),
    [id],
  );

  const records = await published(detector.logDir, (all) =>
    all.some((each) => incidentIn(each).status === 'acknowledged'),
  );
  assert.ok(records.every((record) => record.key === incidentIn(record).id));
  const own = records.filter(({ key }) => key === id).map((record) => newestEvent(incidentIn(record)));
  assert.equal(own[0], 'opened');
  assert.equal(own.at(-1), 'acknowledged');
});
