import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Dispatcher } from '../../../detector/notify/dispatcher.js';
import { routesOf } from '../../../detector/notify/route.js';
import type { Learned, NewNotification } from '../../../detector/store/outbox.js';
import type { Store } from '../../../detector/store/store.js';
import { commitTo, newIncident, newNotification, resolved, temporaryStore } from './support.js';

const OPS = { name: 'ops', minSeverity: 'info', sendResolved: true } as const;
const DEV = { ...OPS, name: 'dev' };
const LABELS = { alertname: 'x' };

const add = (store: Store, ...notifications: NewNotification[]) =>
  commitTo(store, { incidents: notifications.map(({ incident }) => incident), notifications });
/** Makes messages of what was added, a message for each change. */
function dispatch(store: Store): void {
  const deps = { groups: store.groups, routes: routesOf([], [OPS, DEV]), silences: { until: () => undefined } };
  for (const name of ['ops', 'dev']) while (new Dispatcher(name, deps).dispatch(2_000_000)) {}
}
const send = (store: Store, ...notifications: NewNotification[]) => {
  add(store, ...notifications);
  dispatch(store);
};
const due = (store: Store, nowMs: number, receiver = 'ops') =>
  store.outbox.due(receiver, nowMs, 10).map(({ id }) => id);
const failed = (retryAtMs: number) => ({ state: 'failed', error: 'HTTP 503', arrived: false, retryAtMs }) as const;
const fail = (store: Store, id: string, retryAtMs: number) => {
  store.outbox.beginAttempts([id]);
  store.outbox.recordAttempt(id, failed(retryAtMs), []);
};
const giveUp = (store: Store, id: string, ...learned: Learned[]) =>
  store.outbox.recordAttempt(id, { state: 'dead', error: 'HTTP 400', arrived: false }, learned);
const deliver = (store: Store, id: string, ...learned: Learned[]) =>
  store.outbox.recordAttempt(id, { state: 'delivered' }, learned);
const counts = (store: Store, facts: object = {}) =>
  assert.deepEqual(store.outbox.counts(), { pending: 0, failed: 0, delivered: 0, dead: 0, void: 0, held: 0, ...facts });

test('a later message of an incident waits for the earlier, others do not', (t) => {
  const { store } = temporaryStore(t);
  const a = newIncident('a');
  send(store, newNotification('a1', a), newNotification('a2', resolved(a), 'resolved'));
  send(store, newNotification('b1', newIncident('b')), newNotification('a3', a, 'opened', 'dev'));
  assert.deepEqual(due(store, 0), ['a1', 'b1']);
  assert.deepEqual(due(store, 0, 'dev'), ['a3']);
  assert.deepEqual(due(store, 0, 'nobody'), []);

  fail(store, 'a1', 500);
  assert.deepEqual(due(store, 499), ['b1']);
  assert.deepEqual(due(store, 500), ['b1', 'a1']);
  deliver(store, 'a1');
  assert.deepEqual(due(store, 500), ['a2', 'b1']);
});

test('one that is given up does not hold back the next', (t) => {
  const { store } = temporaryStore(t);
  const a = newIncident('a');
  send(store, newNotification('a1', a), newNotification('a2', resolved(a), 'resolved'));
  giveUp(store, 'a1');
  assert.deepEqual(due(store, 0), ['a2']);
});

test('the next time is that of what may be sent next, not of what waits behind it', (t) => {
  const { store } = temporaryStore(t);
  assert.equal(store.outbox.nextDueMs('ops'), undefined);
  const a = newIncident('a');
  send(store, newNotification('a1', a), newNotification('a2', resolved(a), 'resolved'));
  assert.equal(store.outbox.nextDueMs('ops'), 0);
  fail(store, 'a1', 700);
  assert.equal(store.outbox.nextDueMs('ops'), 700);
});

test('the same notification twice is one, and is not sent again once delivered', (t) => {
  const { store } = temporaryStore(t);
  const once = newNotification('a1', newIncident('a'));
  send(store, once, once);
  assert.deepEqual(due(store, 0), ['a1']);
  deliver(store, 'a1');
  send(store, once);
  assert.deepEqual(due(store, 0), []);
  counts(store, { delivered: 1 });
});

test('attempts are counted, and an outcome after the last one changes nothing', (t) => {
  const { store } = temporaryStore(t);
  send(store, newNotification('a1', newIncident('a')));
  fail(store, 'a1', 0);
  fail(store, 'a1', 0);
  assert.equal(store.outbox.due('ops', 0, 1)[0]?.attempts, 2);
  counts(store, { failed: 1 });
  giveUp(store, 'a1');
  fail(store, 'a1', 0);
  counts(store, { dead: 1 });
});

test('what a receiver was told last goes with what it is told next', (t) => {
  const { store } = temporaryStore(t);
  const a = newIncident('a');
  const toldNext = () => store.outbox.due('ops', 0, 1)[0]?.entries.map(({ event, told }) => [event, told]);
  send(store, newNotification('1', a));
  send(store, newNotification('2', newIncident('a', { severity: 'critical' }), 'escalated'));
  send(store, newNotification('3', resolved(a), 'resolved'));
  send(store, newNotification('4', a));
  assert.deepEqual(toldNext(), [['opened', null]]);
  deliver(store, '1', { incident: 'a', seq: 1, labels: LABELS });
  assert.deepEqual(toldNext(), [['escalated', LABELS]]);
  giveUp(store, '2');
  assert.deepEqual(toldNext(), [['resolved', LABELS]], 'what was given up has told nothing');
  deliver(store, '3', { incident: 'a', seq: 3, labels: null });
  assert.deepEqual(toldNext(), [['opened', null]]);
});

test('who was to hear of an incident hears on, in its group then; who was not hears nothing', (t) => {
  const { store } = temporaryStore(t);
  const a = newIncident('a');
  send(store, newNotification('1', a, 'opened', 'ops'));
  const goesOn = (id: string, receiver: string, event: 'escalated' | 'resolved') => ({
    ...newNotification(id, event === 'resolved' ? resolved(a) : a, event, receiver),
    group: undefined,
  });
  send(store, goesOn('2', 'ops', 'escalated'), goesOn('3', 'dev', 'escalated'), goesOn('4', 'dev', 'resolved'));
  send(store, { ...newNotification('5', a, 'escalated'), group: { key: 'other', route: 'x', labels: {} } });
  send(store, goesOn('6', 'ops', 'resolved'), goesOn('7', 'ops', 'resolved'));
  counts(store, { pending: 4 });
  assert.deepEqual(due(store, 0, 'dev'), []);
  for (const id of ['1', '2', '5', '6']) {
    const [message] = store.outbox.due('ops', 0, 10);
    assert.deepEqual([message?.id, message?.group.key], [id, '{}:{incident_id="a"}']);
    deliver(store, id);
  }
});

test('what waits for a receiver that is gone is given up, in a message or not', (t) => {
  const { store } = temporaryStore(t);
  const a = newIncident('a');
  send(store, newNotification('1', a, 'opened', 'ops'), newNotification('2', a, 'opened', 'dev'));
  add(store, newNotification('3', newIncident('b'), 'opened', 'dev'));
  assert.equal(store.outbox.abandonOthers(['ops']), 2);
  assert.deepEqual(due(store, 0, 'ops'), ['1']);
  assert.deepEqual(due(store, 0, 'dev'), []);
  assert.equal(store.groups.nextDueMs('dev'), undefined);
  counts(store, { pending: 1, dead: 1 });
});

test('of many due, the longest due come first and no more than asked for', (t) => {
  const { store } = temporaryStore(t);
  send(store, ...['a', 'b', 'c'].map((id) => newNotification(id, newIncident(id))));
  fail(store, 'a', 30);
  fail(store, 'b', 20);
  fail(store, 'c', 10);
  assert.deepEqual(
    store.outbox.due('ops', 100, 2).map(({ id }) => id),
    ['c', 'b'],
  );
});

test('what was given up is listed, newest first and by pages, and can be told after all under its id', (t) => {
  const { store } = temporaryStore(t);
  send(store, ...['a', 'b', 'c'].map((id) => newNotification(`n-${id}`, newIncident(id))));
  for (const id of ['n-a', 'n-b', 'n-c']) giveUp(store, id);
  const first = store.outbox.list({ state: 'dead', receiver: 'ops' }, undefined, 2);
  const second = store.outbox.list({ state: 'dead' }, first.nextSeq, 2);
  assert.deepEqual(
    [...first.items, ...second.items].map(({ id, error, incidents }) => [id, error, ...incidents]),
    [
      ['n-c', 'HTTP 400', 'c'],
      ['n-b', 'HTTP 400', 'b'],
      ['n-a', 'HTTP 400', 'a'],
    ],
  );
  assert.equal(second.nextSeq, undefined);
  assert.equal(store.outbox.redrive({ id: 'n-b' }), 1);
  assert.equal(store.outbox.redrive({ id: 'n-b' }), 0, 'it is given up no more');
  dispatch(store);
  assert.deepEqual(
    store.outbox.due('ops', 0, 10).map(({ id, attempts }) => [id, attempts]),
    [['n-b', 0]],
  );
  assert.equal(store.outbox.redrive({ receiver: 'dev' }), 0);
  assert.equal(store.outbox.redrive({ receiver: 'ops' }), 2);
});

test('what was given up and is over since is told to nobody; what was told since is not told again', (t) => {
  const { store } = temporaryStore(t);
  const a = newIncident('a');
  send(store, newNotification('1', a));
  giveUp(store, '1');
  send(store, newNotification('2', resolved(a), 'resolved'));
  store.outbox.recordAttempt('2', { state: 'void' }, [{ incident: 'a', seq: 2, labels: null }]);
  store.outbox.redrive({});
  dispatch(store);
  assert.deepEqual(due(store, 0), []);
  counts(store, { void: 1 });

  const b = newIncident('b');
  send(store, newNotification('3', b));
  giveUp(store, '3');
  store.outbox.redrive({ id: '3' });
  // It ends before it is told after all: both changes are one message, in which nothing fires.
  send(store, newNotification('4', resolved(b), 'resolved'));
  const [message] = store.outbox.due('ops', 0, 10);
  assert.deepEqual(
    message?.entries.map(({ event, told }) => [event, told]),
    [['resolved', null]],
  );
});

test('what was given up without an answer may have arrived: its end is told, and what an end was not told stays', (t) => {
  const { store } = temporaryStore(t);
  const toldNext = () => store.outbox.due('ops', 1e9, 1)[0]?.entries.map(({ told }) => told);
  for (const [id, arrived] of [
    ['a', true],
    ['b', false],
  ] as const) {
    const incident = newIncident(id);
    const learned = { incident: id, seq: arrived ? 1 : 3, labels: LABELS };
    send(store, newNotification(`${id}1`, incident), newNotification(`${id}2`, resolved(incident), 'resolved'));
    store.outbox.recordAttempt(`${id}1`, { ...failed(1), arrived }, [learned]);
    assert.deepEqual(toldNext(), [null], 'the same body at the next attempt');
    giveUp(store, `${id}1`, learned);
    assert.deepEqual(toldNext(), [arrived ? LABELS : null]);
    giveUp(store, `${id}2`, { ...learned, labels: null });
    assert.equal(store.outbox.told('ops', 0).length, 1, 'only the first is taken to fire');
  }
});

test('an attempt counts once it is begun; one that a kill cut off may have arrived, one of our own end counts for nothing', (t) => {
  const { store } = temporaryStore(t);
  send(store, newNotification('a1', newIncident('a')));
  const attempts = () => store.outbox.due('ops', 1e9, 1)[0]?.attempts;
  store.outbox.beginAttempts(['a1']);
  assert.equal(attempts(), 1);
  store.outbox.beginAttempts(['a1']);
  store.outbox.recordAttempt('a1', { state: 'pending', arrived: false }, []);
  assert.equal(attempts(), 1);
  giveUp(store, 'a1', { incident: 'a', seq: 1, labels: LABELS });
  assert.equal(store.outbox.told('ops', 0).length, 1, 'the first attempt may have arrived');
});
