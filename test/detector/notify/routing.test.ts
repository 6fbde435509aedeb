import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { pino } from 'pino';
import type { AlertmanagerBody } from '../../../detector/notify/formats/webhook.js';
import type { post } from '../../../detector/notify/http-post.js';
import { notificationsFor } from '../../../detector/notify/notifications.js';
import { RouteConfig } from '../../../detector/notify/route.js';
import { Sender } from '../../../detector/notify/sender.js';
import { Silences } from '../../../detector/notify/silences.js';
import { openSqliteStore } from '../../../detector/store/sqlite-store.js';
import type { Incident } from '../../../protocol/incident.js';
import { commitTo, newIncident, resolved, temporaryFolder } from '../store/support.js';
import { FakeClock, receiverOf, sending } from './support.js';

const START = Date.parse('2026-03-02T09:00:00Z');
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** Routes, silences and sender on one clock that the test turns; what is sent is written down instead. */
function setUp(t: TestContext, configs: object[], path = join(temporaryFolder(t), 'picket.db')) {
  const clock = new FakeClock(START);
  const store = openSqliteStore({
    path,
    now: () => clock.now(),
    synchronous: 'normal',
  });
  t.after(() => store.close());
  const receivers = ['ops', 'pager'].map((name) => receiverOf(name, { url: `http://${name}.example/` }));
  const wiring = sending(
    store,
    receivers,
    configs.map((each) => RouteConfig.parse(each)),
  );
  const sent: string[] = [];
  const record: typeof post = async ({ body }) => {
    const { receiver, alerts, notification_reason } = JSON.parse(body) as AlertmanagerBody;
    const told = alerts.map(({ status, labels }) => `${status === 'firing' ? '+' : '-'}${labels.incident_id}`);
    sent.push(`${(clock.now() - START) / MINUTE} ${receiver} ${told.join(' ')}: ${notification_reason}`);
    return { status: 200, error: 'HTTP 200' };
  };
  const silences = new Silences({
    ...{ store: store.silences, now: () => clock.now() },
    onChange: () => {
      store.groups.reconsider();
      sender.wake();
    },
  });
  const log = pino({ enabled: false });
  const sender = new Sender({ ...wiring, silences, clock, random: () => 0, externalUrl: '', log, post: record });
  sender.start();
  t.after(() => sender.close(0));
  const settle = async () => {
    for (let i = 0; i < 20; i++) await setImmediate();
  };
  return {
    ...{ store, silences, sent, close: () => store.close() },
    /** Tells of changes; what is sent by then has been sent. */
    async change(...changes: [Incident | undefined, Incident][]): Promise<void> {
      for (const [before, after] of changes)
        commitTo(store, { incidents: [after], notifications: notificationsFor(before, after, wiring.routes) });
      sender.wake();
      await settle();
    },
    async at(minutes: number): Promise<void> {
      const until = START + minutes * MINUTE;
      while (clock.next() <= until) {
        clock.advanceTo(clock.next());
        await settle();
      }
      clock.advanceTo(until);
      await settle();
    },
  };
}

const [a, b, c] = ['a', 'b', 'c'].map((id) => newIncident(id)) as [Incident, Incident, Incident];

test('a group waits, keeps its interval and repeats what still fires', async (t) => {
  const { change, at, sent } = setUp(t, [
    { receiver: 'ops', group_by: ['job'], group_wait: '1m', repeat_interval: '1h' },
  ]);
  await change([undefined, a]);
  await at(0.5);
  await change([undefined, b]);
  assert.deepEqual(sent, []);
  await at(2);
  await change([undefined, c], [a, resolved(a)]);
  await at(80);
  await change([b, resolved(b)], [c, resolved(c)]);
  await at(300);
  assert.deepEqual(sent, [
    '1 ops +a +b: first notification',
    '6 ops +b +c -a: new alerts added',
    '66 ops +b +c: repeat interval elapsed',
    '81 ops -b -c: all alerts resolved',
  ]);
});

test('what is over before its group was told is told to nobody', async (t) => {
  const { change, at, sent, store } = setUp(t, [{ receiver: 'ops', group_by: ['job'], group_wait: '1m' }]);
  await change([undefined, a], [a, resolved(a)]);
  await at(60);
  assert.deepEqual(sent, []);
  assert.deepEqual(store.outbox.counts(), { pending: 0, held: 0, failed: 0, delivered: 0, dead: 0, void: 1 });
});

test('without routes each change is told at once, and nothing is repeated', async (t) => {
  const { change, at, sent } = setUp(t, []);
  await change([undefined, a], [a, resolved(a)], [undefined, b]);
  await at(2000);
  assert.deepEqual(sent.sort(), [
    '0 ops +a: first notification',
    '0 ops +b: first notification',
    '0 ops -a: all alerts resolved',
    '0 pager +a: first notification',
    '0 pager +b: first notification',
    '0 pager -a: all alerts resolved',
  ]);
});

test('who heard of an incident hears how it goes on, and who is to hear from now on too', async (t) => {
  const { change, sent } = setUp(t, [
    { receiver: 'pager', match: { severity: 'critical' } },
    { receiver: 'ops', match: { job: 'llama' } },
  ]);
  const worse: Incident = { ...a, severity: 'critical' };
  await change([undefined, a]);
  await change([a, worse]);
  await change([worse, resolved(worse)]);
  assert.deepEqual(sent.sort(), [
    '0 ops +a -a: new alerts added',
    '0 ops +a: first notification',
    '0 ops -a: all alerts resolved',
    '0 pager +a: first notification',
    '0 pager -a: all alerts resolved',
  ]);
});

test('a silence holds back what begins, lets ends pass, and what still fires is told when it ends', async (t) => {
  const { change, at, sent, silences, store } = setUp(t, [{ receiver: 'ops' }]);
  await change([undefined, a]);
  const times = { startsMs: START, endsMs: START + 2 * HOUR };
  const silence = silences.add({ match: { job: 'lla*' }, ...times, author: 'eve', reason: 'burn-in' });
  const worse: Incident = { ...b, severity: 'critical' };
  await change([undefined, b], [b, worse], [undefined, c], [a, resolved(a)]);
  assert.deepEqual(store.outbox.counts().held, 3);
  await at(60);
  await change([c, resolved(c)]);
  assert.deepEqual(sent, ['0 ops +a: first notification', '0 ops -a: all alerts resolved']);
  assert.deepEqual([silences.active(START + HOUR), silences.active(START + 2 * HOUR)], [1, 0]);
  await at(121);
  assert.deepEqual(sent.slice(2), ['120 ops +b: first notification']);
  assert.equal(silences.get(silence.id)?.author, 'eve');
});

test('a silence that is ended early lets go at once; one that begins later does not hold yet', async (t) => {
  const { change, at, sent, silences } = setUp(t, []);
  const times = { startsMs: START + HOUR, endsMs: START + 2 * HOUR };
  const silence = silences.add({ match: { kind: 'straggler' }, ...times, author: 'eve', reason: 'x' });
  await change([undefined, a]);
  await at(90);
  await change([undefined, b]);
  assert.equal(sent.length, 2, 'both receivers of the first');
  assert.ok(silences.expire(silence.id));
  await at(90);
  assert.deepEqual(sent.slice(2).sort(), ['90 ops +b: first notification', '90 pager +b: first notification']);
  assert.equal(silences.expire('no such'), false);
});

test('a maintenance window of a route holds back its receiver alone, until it is over', async (t) => {
  const { change, at, sent } = setUp(t, [
    { receiver: 'ops', continue: true, mute: [{ name: 'upgrade', days: ['mon'], from: '09:00', to: '10:30' }] },
    { receiver: 'pager' },
  ]);
  await change([undefined, a]);
  await at(60);
  await change([undefined, b], [b, resolved(b)]);
  assert.deepEqual(sent, [
    '0 pager +a: first notification',
    '60 pager +b: first notification',
    '60 pager -b: all alerts resolved',
  ]);
  await at(120);
  assert.deepEqual(sent.slice(3), ['90 ops +a: first notification']);
});

test('a repeat interval that is set while an incident fires counts from the next start on', async (t) => {
  const path = join(temporaryFolder(t), 'picket.db');
  const before = setUp(t, [], path);
  await before.change([undefined, a]);
  before.close();
  const { change, at, sent } = setUp(t, [{ receiver: 'ops', repeat_interval: '1h' }], path);
  await change();
  await at(61);
  assert.deepEqual(sent, ['60 ops +a: repeat interval elapsed']);
});
