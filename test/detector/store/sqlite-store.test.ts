import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Dispatcher } from '../../../detector/notify/dispatcher.js';
import { routesOf } from '../../../detector/notify/route.js';
import { openSqliteStore } from '../../../detector/store/sqlite-store.js';
import { PicketError } from '../../../protocol/errors.js';
import { commitTo, newIncident, newNotification, PARTITION, resolved, temporaryStore } from './support.js';

const isConflict = (error: unknown) => error instanceof PicketError && error.code === 'conflict';

test('a commit is read back, also after a restart', (t) => {
  const { store, path, clock } = temporaryStore(t);
  const incident = newIncident('a');
  const checkpoint = { nextOffset: 2n ** 62n + 1n, restartOffset: 2n ** 62n, snapshot: Uint8Array.of(0, 255, 7) };
  const jobs = [{ job: 'llama', run: '2', lastDataMs: 1_234 }];
  commitTo(store, { checkpoint, incidents: [incident], notifications: [newNotification('n', incident)], jobs });
  store.close();

  const again = openSqliteStore({ path, now: () => clock.nowMs });
  t.after(() => again.close());
  const read = again.checkpoint(PARTITION);
  assert.deepEqual({ ...read, snapshot: new Uint8Array(read?.snapshot ?? []) }, { ...checkpoint, jobs: new Map() });
  assert.deepEqual(again.incident('a'), incident);
  assert.deepEqual(again.job('llama'), jobs[0]);
  assert.equal(again.outbox.counts().pending, 1);
});

test('states of jobs are kept one by one, in the order in which they came', (t) => {
  const { store } = temporaryStore(t);
  const commitJobs = (...jobs: [string, Uint8Array | null][]) =>
    commitTo(store, {
      checkpoint: { nextOffset: 1n, restartOffset: 0n, snapshot: new Uint8Array(), jobs: new Map(jobs) },
    });
  const read = () => [...(store.checkpoint(PARTITION)?.jobs ?? [])].map(([key, state]) => [key, state?.[0]]);
  commitJobs(['b\u00001', Uint8Array.of(1)], ['a\u00001', Uint8Array.of(2)], ['c', Uint8Array.of(3)]);
  commitJobs(['b\u00001', Uint8Array.of(4)], ['c', null]);
  commitJobs();
  assert.deepEqual(read(), [
    ['b\u00001', 4],
    ['a\u00001', 2],
  ]);
  assert.equal(store.acquire({ ...PARTITION, partition: 1 }).checkpoint, undefined);
});

test('a partition nobody committed has no checkpoint, and epochs rise', (t) => {
  const { store } = temporaryStore(t);
  assert.equal(store.checkpoint(PARTITION), undefined);
  assert.deepEqual(store.acquire(PARTITION), { epoch: 1, checkpoint: undefined });
  assert.equal(store.acquire(PARTITION).epoch, 2);
  assert.equal(store.acquire({ ...PARTITION, partition: 1 }).epoch, 1);
});

test('a commit under an older epoch is refused whole', (t) => {
  const { store } = temporaryStore(t);
  const { epoch } = store.acquire(PARTITION);
  commitTo(store, { epoch, incidents: [newIncident('a')] });
  const { epoch: later, checkpoint } = store.acquire(PARTITION);
  assert.equal(checkpoint?.nextOffset, 1n);

  const zombie = { nextOffset: 99n, restartOffset: 99n, snapshot: new Uint8Array() };
  const jobs = [{ job: 'late', run: '1', lastDataMs: 1 }];
  assert.throws(() => commitTo(store, { epoch, checkpoint: zombie, incidents: [newIncident('b')], jobs }), isConflict);
  assert.equal(store.incident('b'), undefined);
  assert.equal(store.job('late'), undefined);
  assert.equal(store.checkpoint(PARTITION)?.nextOffset, 1n);
  commitTo(store, { epoch: later, incidents: [newIncident('b')] });
  assert.ok(store.incident('b'));
});

test('a partition that was never acquired cannot be committed to', (t) => {
  const { store } = temporaryStore(t);
  assert.throws(() => commitTo(store, { epoch: 1 }), isConflict);
});

test('a commit that fails half way leaves nothing', (t) => {
  const { store } = temporaryStore(t);
  commitTo(store, {});
  const orphan = newNotification('n', newIncident('missing'));
  const checkpoint = { nextOffset: 5n, restartOffset: 5n, snapshot: new Uint8Array() };
  assert.throws(
    () => commitTo(store, { checkpoint, incidents: [newIncident('a')], notifications: [orphan] }),
    (error) => error instanceof PicketError && error.code === 'store_unavailable' && /FOREIGN/.test(error.message),
  );
  assert.equal(store.incident('a'), undefined);
  assert.equal(store.checkpoint(PARTITION)?.nextOffset, 1n);
});

test('open incidents leave the resolved out, oldest first, of the jobs asked for', (t) => {
  const { store } = temporaryStore(t);
  const early = newIncident('early', { started_at: '2026-03-01T09:59:59.9Z', subject: { job: 'gpt' } });
  const late = newIncident('late', { status: 'acknowledged' });
  commitTo(store, { incidents: [late, early, resolved(newIncident('over'))] });
  const ids = (jobs?: string[]) => store.openIncidents(jobs).map(({ id }) => id);
  assert.deepEqual(ids(), ['early', 'late']);
  assert.deepEqual(ids(['gpt', 'none']), ['early']);
  assert.deepEqual(ids([]), []);
  commitTo(store, { incidents: [resolved(early)] });
  assert.deepEqual(ids(), ['late']);
});

test('a job keeps its latest arrival and the run that it came from', (t) => {
  const { store } = temporaryStore(t);
  assert.equal(store.job('llama'), undefined);
  commitTo(store, { jobs: [{ job: 'llama', run: '2', lastDataMs: 20 }] });
  commitTo(store, { jobs: [{ job: 'llama', run: '1', lastDataMs: 10 }] });
  assert.deepEqual(store.job('llama'), { job: 'llama', run: '2', lastDataMs: 20 });
});

test('check passes while the store can be written', (t) => {
  const { store } = temporaryStore(t);
  assert.doesNotThrow(() => store.check());
});

test('retention takes old resolved incidents and their notifications in batches, and nothing else', (t) => {
  const { store, clock } = temporaryStore(t);
  const over = ['a', 'b', 'c'].map((id) => resolved(newIncident(id)));
  const waiting = resolved(newIncident('waiting'));
  const open = newIncident('open');
  const notifications = [...over, waiting, open].map((incident) => newNotification(`n-${incident.id}`, incident));
  const jobs = [
    { job: 'llama', run: '1', lastDataMs: clock.nowMs },
    { job: 'forgotten', run: '1', lastDataMs: clock.nowMs },
  ];
  commitTo(store, { incidents: [...over, waiting, open], notifications, jobs });
  const dispatcher = new Dispatcher('ops', {
    ...{ groups: store.groups, silences: { until: () => undefined } },
    routes: routesOf([], [{ name: 'ops', minSeverity: 'info', sendResolved: true }]),
  });
  while (dispatcher.dispatch(clock.nowMs)) {}
  for (const { id } of notifications)
    if (id !== 'n-waiting') store.outbox.recordAttempt(id, { state: 'delivered' }, []);

  assert.equal(store.prune(1_000, 10), 0);
  clock.nowMs += 1_001;
  commitTo(store, { incidents: [resolved(newIncident('fresh'))] });
  // Two incidents and the job without any, then the third incident.
  assert.deepEqual([store.prune(1_000, 2), store.prune(1_000, 2), store.prune(1_000, 2)], [3, 1, 0]);
  assert.deepEqual(
    store.listIncidents({}, undefined, 10).items.map(({ id }) => id),
    ['waiting', 'open', 'fresh'],
  );
  assert.deepEqual(store.outbox.counts(), { pending: 1, failed: 0, delivered: 1, dead: 0, void: 0, held: 0 });
  assert.ok(store.job('llama'));
  assert.equal(store.job('forgotten'), undefined);
  assert.ok(store.checkpoint(PARTITION));
});

test('an incident written again without change is as old as it was', (t) => {
  const { store, clock } = temporaryStore(t);
  commitTo(store, { incidents: [resolved(newIncident('a'))] });
  clock.nowMs += 2_000;
  commitTo(store, { incidents: [resolved(newIncident('a'))] });
  assert.equal(store.prune(1_000, 10), 1);
});
