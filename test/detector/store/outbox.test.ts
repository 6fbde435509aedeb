import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NewNotification, Store } from '../../../detector/store/store.js';
import type { Incident, Severity } from '../../../protocol/incident.js';
import { commitTo, newIncident, newNotification, resolved, temporaryStore } from './support.js';

const add = (store: Store, ...notifications: NewNotification[]) =>
  commitTo(store, { incidents: notifications.map(({ incident }) => incident), notifications });
const due = (store: Store, nowMs: number, receiver = 'ops') =>
  store.outbox.due(receiver, nowMs, 10).map(({ id }) => id);
const failed = (retryAtMs: number) => ({ state: 'failed', error: 'HTTP 503', retryAtMs }) as const;

test('a later notification of an incident waits for the earlier, others do not', (t) => {
  const { store } = temporaryStore(t);
  const a = newIncident('a');
  add(store, newNotification('a1', a), newNotification('a2', resolved(a), 'resolved'));
  add(store, newNotification('b1', newIncident('b')), newNotification('a3', a, 'opened', 'dev'));
  assert.deepEqual(due(store, 0), ['a1', 'b1']);
  assert.deepEqual(due(store, 0, 'dev'), ['a3']);
  assert.deepEqual(due(store, 0, 'nobody'), []);

  store.outbox.recordAttempt('a1', failed(500));
  assert.deepEqual(due(store, 499), ['b1']);
  assert.deepEqual(due(store, 500), ['b1', 'a1']);
  store.outbox.recordAttempt('a1', { state: 'delivered' });
  assert.deepEqual(due(store, 500), ['a2', 'b1']);
});

test('one that is given up does not hold back the next', (t) => {
  const { store } = temporaryStore(t);
  const a = newIncident('a');
  add(store, newNotification('a1', a), newNotification('a2', resolved(a), 'resolved'));
  store.outbox.recordAttempt('a1', { state: 'dead', error: 'HTTP 400' });
  assert.deepEqual(due(store, 0), ['a2']);
});

test('the next time is that of what may be sent next, not of what waits behind it', (t) => {
  const { store } = temporaryStore(t);
  assert.equal(store.outbox.nextDueMs('ops'), undefined);
  const a = newIncident('a');
  add(store, newNotification('a1', a), newNotification('a2', resolved(a), 'resolved'));
  assert.equal(store.outbox.nextDueMs('ops'), 0);
  store.outbox.recordAttempt('a1', failed(700));
  assert.equal(store.outbox.nextDueMs('ops'), 700);
});

test('the same notification twice is one, and is not sent again once delivered', (t) => {
  const { store } = temporaryStore(t);
  const once = newNotification('a1', newIncident('a'));
  add(store, once, once);
  assert.deepEqual(due(store, 0), ['a1']);
  store.outbox.recordAttempt('a1', { state: 'delivered' });
  add(store, once);
  assert.deepEqual(due(store, 0), []);
  assert.deepEqual(store.outbox.counts(), { pending: 0, failed: 0, delivered: 1, dead: 0 });
});

test('attempts are counted, and an outcome after the last one changes nothing', (t) => {
  const { store } = temporaryStore(t);
  add(store, newNotification('a1', newIncident('a')));
  store.outbox.recordAttempt('a1', failed(0));
  store.outbox.recordAttempt('a1', failed(0));
  assert.equal(store.outbox.due('ops', 0, 1)[0]?.attempts, 2);
  assert.equal(store.outbox.counts().failed, 1);
  store.outbox.recordAttempt('a1', { state: 'dead', error: 'HTTP 410' });
  store.outbox.recordAttempt('a1', failed(0));
  assert.deepEqual(store.outbox.counts(), { pending: 0, failed: 0, delivered: 0, dead: 1 });
});

test('a notification holds the incident as it was and the severity last told', (t) => {
  const { store } = temporaryStore(t);
  const at = (severity: Severity): Incident => newIncident('a', { severity });
  const events: [NewNotification, Severity | null][] = [
    [newNotification('1', at('warning')), null],
    [newNotification('2', at('critical'), 'escalated'), 'warning'],
    // Eased before its end: the end is told of the alert that fires at the receiver.
    [newNotification('3', resolved(at('info')), 'resolved'), 'critical'],
    [newNotification('4', at('warning')), null],
  ];
  for (const [notification] of events) add(store, notification);
  for (const [{ id, incident, event }, told] of events) {
    const [sent] = store.outbox.due('ops', 0, 1);
    assert.deepEqual(sent, { id, receiver: 'ops', event, toldSeverity: told, attempts: 0, incident });
    store.outbox.recordAttempt(id, { state: 'delivered' });
  }
});

test('the end of an incident is kept only for who heard of it, and once', (t) => {
  const { store } = temporaryStore(t);
  const a = newIncident('a');
  add(store, newNotification('1', a, 'opened', 'ops'));
  const end = (id: string, receiver: string) => newNotification(id, resolved(a), 'resolved', receiver);
  add(store, end('2', 'ops'), end('3', 'dev'), end('4', 'ops'));
  assert.deepEqual(store.outbox.counts(), { pending: 2, failed: 0, delivered: 0, dead: 0 });
  assert.deepEqual(due(store, 0, 'dev'), []);
});

test('what waits for a receiver that is gone is given up', (t) => {
  const { store } = temporaryStore(t);
  const a = newIncident('a');
  add(store, newNotification('1', a, 'opened', 'ops'), newNotification('2', a, 'opened', 'gone'));
  assert.equal(store.outbox.abandonOthers(['ops']), 1);
  assert.deepEqual(due(store, 0, 'ops'), ['1']);
  assert.deepEqual(due(store, 0, 'gone'), []);
  assert.equal(store.outbox.counts().dead, 1);
});

test('of many due, the longest due come first and no more than asked for', (t) => {
  const { store } = temporaryStore(t);
  add(store, ...['a', 'b', 'c'].map((id) => newNotification(id, newIncident(id))));
  store.outbox.recordAttempt('a', failed(30));
  store.outbox.recordAttempt('b', failed(20));
  store.outbox.recordAttempt('c', failed(10));
  assert.deepEqual(
    store.outbox.due('ops', 100, 2).map(({ id }) => id),
    ['c', 'b'],
  );
});
