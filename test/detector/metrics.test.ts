import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMetrics } from '../../detector/metrics.js';
import { INCIDENT_KINDS } from '../../protocol/incident.js';
import { newIncident } from './store/support.js';

const lines = async ({ registry }: ReturnType<typeof createMetrics>, name: string) =>
  (await registry.getSingleMetricAsString(name)).split('\n').filter((line) => !line.startsWith('#'));

test('open incidents are shown for every kind, closed ones no more', async () => {
  const metrics = createMetrics();
  metrics.setOpenIncidents([newIncident('a'), newIncident('b')]);
  assert.equal((await lines(metrics, 'picket_incidents_open')).length, INCIDENT_KINDS.length);
  assert.ok((await lines(metrics, 'picket_incidents_open')).includes('picket_incidents_open{kind="straggler"} 2'));
  metrics.setOpenIncidents([]);
  assert.ok((await lines(metrics, 'picket_incidents_open')).includes('picket_incidents_open{kind="straggler"} 0'));
});

test('the lag of a partition that is gone is shown no more', async () => {
  const metrics = createMetrics();
  metrics.setLag(
    new Map([
      ['picket.phases.v1/0', 5n],
      ['picket.phases.v1/1', 0n],
    ]),
  );
  assert.equal((await lines(metrics, 'picket_bus_lag')).length, 2);
  metrics.setLag(new Map([['picket.phases.v1/1', 7n]]));
  assert.deepEqual(await lines(metrics, 'picket_bus_lag'), [
    'picket_bus_lag{topic="picket.phases.v1",partition="1"} 7',
  ]);
});

test('what is dropped or cannot be read is there at zero before the first', async () => {
  const metrics = createMetrics();
  metrics.rowsDropped('start_zero', 2);
  metrics.decodeError('bad_input');
  const dropped = await lines(metrics, 'picket_rows_dropped_total');
  assert.ok(dropped.includes('picket_rows_dropped_total{reason="start_zero"} 2'));
  assert.ok(dropped.includes('picket_rows_dropped_total{reason="rank_out_of_range"} 0'));
  const unread = await lines(metrics, 'picket_decode_errors_total');
  assert.ok(unread.includes('picket_decode_errors_total{reason="bad_input"} 1'));
  assert.ok(unread.includes('picket_decode_errors_total{reason="unsupported_version"} 0'));
});

test('a receiver is there at zero before its first attempt', async () => {
  const metrics = createMetrics();
  metrics.addReceiver('ops');
  metrics.notificationAttempt('ops', 'dead');
  assert.deepEqual((await lines(metrics, 'picket_notifications_total')).sort(), [
    'picket_notifications_total{receiver="ops",outcome="dead"} 1',
    'picket_notifications_total{receiver="ops",outcome="delivered"} 0',
    'picket_notifications_total{receiver="ops",outcome="failed"} 0',
    'picket_notifications_total{receiver="ops",outcome="void"} 0',
  ]);
});

test('incidents that nobody is told of are counted', async () => {
  const metrics = createMetrics();
  for (const routed of [true, false, false]) metrics.incidentOpened(newIncident('a'), routed);
  assert.deepEqual(await lines(metrics, 'picket_incidents_unrouted_total'), ['picket_incidents_unrouted_total 2']);
});

test('the outbox counts what waits for its first or another attempt', async () => {
  const metrics = createMetrics();
  metrics.setOutbox({ pending: 2, failed: 3, delivered: 50, dead: 4, void: 1, held: 6 });
  assert.deepEqual(await lines(metrics, 'picket_outbox_pending'), ['picket_outbox_pending 5']);
  assert.deepEqual(await lines(metrics, 'picket_outbox_held'), ['picket_outbox_held 6']);
  assert.deepEqual(await lines(metrics, 'picket_outbox_dead'), ['picket_outbox_dead 4']);
});

test('every metric of ours has the prefix and no label out of the data', async () => {
  const metrics = createMetrics();
  metrics.incidentOpened(newIncident('a'), false);
  metrics.decodeError('bad_input');
  metrics.rowsDropped('impossible', 3);
  const allowed = new Set(['topic', 'partition', 'reason', 'kind', 'severity', 'receiver', 'outcome', 'le']);
  const ours = metrics.registry.getMetricsAsArray().filter(({ name }) => !/^(process|nodejs)_/.test(name));
  assert.ok(ours.length >= 18);
  for (const metric of ours) {
    assert.match(metric.name, /^picket_/);
    const { values } = await (metric as unknown as { get(): Promise<{ values: { labels: object }[] }> }).get();
    for (const { labels } of values) for (const label of Object.keys(labels)) assert.ok(allowed.has(label), label);
  }
});
