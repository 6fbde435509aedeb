import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { openBus } from '../../bus/open.js';
import { publish } from '../../cli/publish.js';
import { importPaths } from '../../importers/index.js';
import { TOPICS } from '../../protocol/topics.js';
import { DetectorProcess } from '../support/detector-process.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';

const EXCERPT = resolve('fixtures/h200-tp2-excerpt');

test('a running detector: what is silenced is held over a restart, and told by its route once the silence is ended', {
  timeout: 120_000,
}, async (t) => {
  const receiver = await WebhookReceiver.start();
  const routes = [{ receiver: receiver.name, match: { job: '*' }, group_by: ['job'], group_wait: '0' }];
  const detector = new DetectorProcess({ kind: 'embedded', dir: '', fsync: 'never' }, [receiver], { routes });
  t.after(() => Promise.all([detector.close(), receiver.close()]));
  assert.ok(await detector.start(), detector.output);
  const ask = async (method: string, path: string, body?: object) => {
    const json = body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
    const response = await fetch(new URL(path, detector.url), { method, ...json });
    assert.ok(response.ok, `${path}: ${response.status}`);
    return response.text();
  };
  const silence = { match: { kind: ['*', '!data_quality'] }, duration: '1h', author: 'eve', reason: 'maintenance' };
  const { id } = JSON.parse(await ask('POST', '/v1/silences', silence)) as { id: string };

  const bus = await openBus({ kind: 'embedded', dir: detector.logDir, fsync: 'never' });
  await bus.createTopics([{ topic: TOPICS.phases, partitions: 2 }]);
  await publish(await bus.producer(), importPaths([EXCERPT]), undefined);
  await bus.close();
  const [incident] = await detector.incidentsUntil((incidents) =>
    incidents.some(({ kind }) => kind !== 'data_quality'),
  );
  const metric = async (name: string) =>
    Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(await ask('GET', '/metrics'))?.[1]);
  while (!((await metric('picket_outbox_held')) > 0)) await new Promise((resolve) => setTimeout(resolve, 50));

  await detector.kill();
  assert.ok(await detector.start(), detector.output);
  while (!((await metric('picket_outbox_held')) > 0)) await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(await metric('picket_silences_active'), 1);
  assert.deepEqual(
    receiver.received.map(({ body }) => body.alerts.map(({ labels }) => labels.kind)),
    [],
  );

  await ask('DELETE', `/v1/silences/${id}`);
  await receiver.idsUntil(1);
  const [told] = receiver.received.map(({ body }) => body);
  assert.deepEqual(
    [told?.groupKey, told?.groupLabels],
    [`{}/{job="*"}:{job="${incident?.subject.job}"}`, { job: incident?.subject.job }],
  );
  assert.ok(told?.alerts.some(({ labels, status }) => labels.incident_id === incident?.id && status === 'firing'));
});
