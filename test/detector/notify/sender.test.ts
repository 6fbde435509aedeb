import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { pino } from 'pino';
import { Webhook } from 'standardwebhooks';
import { type Receiver, ReceiverConfig, resolveReceiver } from '../../../detector/notify/config.js';
import { notificationsFor } from '../../../detector/notify/notifications.js';
import { routesOf } from '../../../detector/notify/route.js';
import { Sender, type SenderDeps } from '../../../detector/notify/sender.js';
import type { Outbox } from '../../../detector/store/outbox.js';
import type { Store } from '../../../detector/store/store.js';
import { PicketError } from '../../../protocol/errors.js';
import type { Incident } from '../../../protocol/incident.js';
import { commitTo, newIncident, resolved, temporaryStore } from '../store/support.js';
import { FakeClock, type Hook, receiverOf, sending, startHook, until } from './support.js';

const SECRET = Buffer.alloc(32, 5);
const OK = () => ({ status: 200 });

/** A sender on a store of its own, with a log that is kept and a clock that stands at the present. */
function setUp(t: TestContext, receivers: Receiver[], facts: Partial<SenderDeps> = {}) {
  const { store } = temporaryStore(t);
  const clock = new FakeClock(Date.now());
  const logged: string[] = [];
  const log = pino({}, { write: (line: string) => logged.push(line) });
  const deps = {
    ...sending(store, receivers),
    clock,
    random: () => 0,
    externalUrl: 'http://picket',
    log,
    ...facts,
  };
  const sender = new Sender(deps);
  t.after(async () => {
    const closed = sender.close(0);
    clock.advanceTo(clock.now());
    await closed;
  });
  return { store, clock, sender, logged };
}

function change(store: Store, receivers: readonly Receiver[], before: Incident | undefined, after: Incident): void {
  commitTo(store, { incidents: [after], notifications: notificationsFor(before, after, routesOf([], receivers)) });
}

const ids = ({ requests }: Hook) => requests.map(({ headers }) => headers['webhook-id']);

test('a change is told once, signed, with the configured headers', async (t) => {
  const hook = await startHook(t, OK);
  const receivers = [receiverOf('ops', hook, { secrets: [SECRET], headers: { 'x-team': 'gpu' } })];
  const { store, sender } = setUp(t, receivers);
  sender.start();
  change(store, receivers, undefined, newIncident('a'));
  sender.wake();
  await until(() => store.outbox.counts().delivered === 1, 'the delivery');

  assert.equal(hook.requests.length, 1);
  const [{ headers, body }] = hook.requests as [Hook['requests'][0]];
  const verified = new Webhook(`whsec_${SECRET.toString('base64')}`).verify(body, headers as Record<string, string>);
  assert.equal((verified as { status: string }).status, 'firing');
  assert.equal(headers['x-team'], 'gpu');
  assert.equal(headers['content-type'], 'application/json');
});

test('an unavailable receiver hears of it later under the same id, in a newly signed attempt', async (t) => {
  const hook = await startHook(t, (request) => ({ status: request < 2 ? 503 : 204 }));
  const receivers = [receiverOf('ops', hook, { secrets: [SECRET] })];
  let failures = 0;
  const { store, sender, clock } = setUp(t, receivers, { onAttempt: () => failures++ });
  change(store, receivers, undefined, newIncident('a'));
  sender.start();
  for (let attempt = 1; attempt <= 2; attempt++) {
    await until(() => failures === attempt, 'the attempt');
    await setImmediate();
    clock.advanceTo(clock.next());
  }
  await until(() => store.outbox.counts().delivered === 1, 'the delivery');
  assert.equal(new Set(ids(hook)).size, 1);
  assert.equal(new Set(hook.requests.map(({ body }) => body)).size, 1);
  const stamps = hook.requests.map(({ headers }) => Number(headers['webhook-timestamp']));
  const first = stamps[0] as number;
  assert.deepEqual(
    stamps.map((stamp) => stamp - first),
    [0, 5, 15],
  );
  for (const { body, headers } of hook.requests)
    new Webhook(`whsec_${SECRET.toString('base64')}`).verify(body, headers as Record<string, string>);
});

test('429 with Retry-After silences the receiver for as long, new notifications included', async (t) => {
  const hook = await startHook(t, (request) =>
    request === 0 ? { status: 429, headers: { 'retry-after': '120' } } : { status: 200 },
  );
  const receivers = [receiverOf('ops', hook)];
  const { store, sender, clock } = setUp(t, receivers);
  change(store, receivers, undefined, newIncident('a'));
  sender.start();
  await until(() => store.outbox.counts().failed === 1, 'the refusal');
  change(store, receivers, undefined, newIncident('b'));
  const start = clock.now();
  for (const atMs of [start, start + 60_000, start + 119_999]) {
    clock.advanceTo(atMs);
    sender.wake();
    for (let i = 0; i < 10; i++) await setImmediate();
    assert.equal(hook.requests.length, 1, `sent at ${atMs - start}`);
  }
  clock.advanceTo(start + 120_000);
  await until(() => store.outbox.counts().delivered === 2, 'both deliveries');
  assert.equal(hook.requests.length, 3);
});

test('a refusal and a redirect are final, and the redirect is not followed', async (t) => {
  const bad = await startHook(t, () => ({ status: 400 }));
  const moved = await startHook(t, () => ({ status: 307, headers: { location: bad.url } }));
  const receivers = [receiverOf('bad', bad), receiverOf('moved', moved)];
  const { store, sender, logged } = setUp(t, receivers);
  change(store, receivers, undefined, newIncident('a'));
  sender.start();
  await until(() => store.outbox.counts().dead === 2, 'both to be given up');
  assert.deepEqual([bad.requests.length, moved.requests.length], [1, 1]);
  assert.match(logged.join(''), /HTTP 400/);
  assert.match(logged.join(''), /HTTP 307/);
});

test('after the last attempt a notification is given up', async (t) => {
  const hook = await startHook(t, () => ({ status: 500 }));
  const receivers = [receiverOf('ops', hook, { maxAttempts: 3 })];
  const attempts: string[] = [];
  const { store, sender, clock } = setUp(t, receivers, {
    onAttempt: (name, state) => attempts.push(`${name} ${state}`),
  });
  change(store, receivers, undefined, newIncident('a'));
  sender.start();
  for (let sent = 1; sent <= 2; sent++) {
    await until(() => attempts.length === sent, 'the attempt');
    await setImmediate();
    clock.advanceTo(clock.next());
  }
  await until(() => store.outbox.counts().dead === 1, 'the end');
  assert.deepEqual(attempts, ['ops failed', 'ops failed', 'ops dead']);
});

test('changes of one incident arrive in order, though the first needs a second try', async (t) => {
  const hook = await startHook(t, (request) => ({ status: request === 0 ? 503 : 200 }));
  const receivers = [receiverOf('ops', hook)];
  const { store, sender, clock } = setUp(t, receivers);
  const opened = newIncident('a');
  const worse: Incident = { ...opened, severity: 'critical' };
  change(store, receivers, undefined, opened);
  sender.start();
  await until(() => store.outbox.counts().failed === 1, 'the first attempt');
  change(store, receivers, opened, worse);
  change(store, receivers, worse, resolved(worse));
  change(store, receivers, undefined, newIncident('b'));
  sender.wake();
  await until(() => store.outbox.counts().delivered === 1, 'the other incident');
  clock.advanceTo(clock.next());
  await until(() => store.outbox.counts().delivered === 4, 'all deliveries');
  const told = hook.requests.map(({ body }) => {
    const { groupLabels, status, alerts } = JSON.parse(body);
    return `${groupLabels.incident_id} ${status} ${alerts[0].labels.severity}`;
  });
  assert.deepEqual(told, [
    'a firing warning',
    'b firing warning',
    'a firing warning',
    'a firing critical',
    'a resolved critical',
  ]);
});

test('nobody there: the reason is kept without the address', async (t) => {
  const gone = createServer().listen(0, '127.0.0.1');
  await once(gone, 'listening');
  const { port } = gone.address() as AddressInfo;
  gone.close();
  const url = `http://127.0.0.1:${port}/secret-token`;
  const receivers = [receiverOf('ops', { url }, { maxAttempts: 1 })];
  const { store, sender, logged } = setUp(t, receivers);
  change(store, receivers, undefined, newIncident('a'));
  sender.start();
  await until(() => store.outbox.counts().dead === 1, 'the end');
  assert.match(logged.join(''), /connection failed \(ECONNREFUSED\)/);
  assert.doesNotMatch(logged.join(''), /secret-token|127\.0\.0\.1/);
});

test('close sends what is due and leaves what must wait', async (t) => {
  const hook = await startHook(t, (request) => ({ status: request === 0 ? 503 : 200 }));
  const receivers = [receiverOf('ops', hook)];
  const { store, sender } = setUp(t, receivers);
  change(store, receivers, undefined, newIncident('a'));
  sender.start();
  await until(() => store.outbox.counts().failed === 1, 'the first attempt');
  for (const id of ['b', 'c', 'd', 'e', 'f', 'g']) change(store, receivers, undefined, newIncident(id));
  await sender.close(1_000);
  assert.deepEqual(store.outbox.counts(), { pending: 0, failed: 1, delivered: 6, dead: 0, void: 0, held: 0 });
});

test('close waits for a stalled receiver no longer than its deadline, and counts no attempt', async (t) => {
  const hook = await startHook(t, () => 'stall');
  const receivers = [receiverOf('ops', hook)];
  const { store, sender, clock } = setUp(t, receivers);
  change(store, receivers, undefined, newIncident('a'));
  sender.start();
  await until(() => hook.requests.length === 1, 'the request');
  const closed = sender.close(3_000);
  clock.advanceTo(clock.now() + 3_000);
  await closed;
  assert.deepEqual(store.outbox.counts(), { pending: 1, failed: 0, delivered: 0, dead: 0, void: 0, held: 0 });
});

test('a store that fails is asked again with growing patience, and nothing is lost', async (t) => {
  const hook = await startHook(t, OK);
  const receivers = [receiverOf('ops', hook)];
  const { store } = temporaryStore(t);
  let failures = 3;
  const record = store.outbox.recordAttempt.bind(store.outbox);
  t.mock.method(store.outbox, 'recordAttempt', (...given: Parameters<Outbox['recordAttempt']>) => {
    if (failures-- > 0) throw new PicketError('store_unavailable', 'disk full');
    record(...given);
  });
  const { sender, clock, logged } = setUp(t, receivers, sending(store, receivers));
  change(store, receivers, undefined, newIncident('a'));
  const start = clock.now();
  const waits: number[] = [];
  sender.start();
  for (let failure = 1; failure <= 3; failure++) {
    await until(() => logged.length === failure, 'the complaint');
    await setImmediate();
    waits.push(clock.next() - clock.now());
    clock.advanceTo(clock.next());
  }
  await until(() => store.outbox.counts().delivered === 1, 'the delivery');
  assert.deepEqual(waits, [5_000, 10_000, 20_000]);
  assert.equal(clock.now() - start, 35_000);
  assert.equal(new Set(ids(hook)).size, 1);
});

test('a receiver that is gone is left alone for an hour, and what came first is given up', async (t) => {
  const hook = await startHook(t, (request) => ({ status: request === 0 ? 410 : 200 }));
  const receivers = [receiverOf('ops', hook)];
  const { store, sender, clock } = setUp(t, receivers);
  change(store, receivers, undefined, newIncident('a'));
  sender.start();
  await until(() => store.outbox.counts().dead === 1, 'the refusal');
  change(store, receivers, undefined, newIncident('b'));
  sender.wake();
  const start = clock.now();
  clock.advanceTo(start + 3_599_999);
  for (let i = 0; i < 10; i++) await setImmediate();
  assert.equal(hook.requests.length, 1);
  clock.advanceTo(start + 3_600_000);
  await until(() => store.outbox.counts().delivered === 1, 'the next');
  assert.equal(store.outbox.redrive({}), 1);
  sender.wake();
  await until(() => store.outbox.counts().delivered === 2, 'what was given up');
  assert.equal(ids(hook)[0], ids(hook)[2], 'under its id');
});

test('an end is not told to whom the beginning could not be told', async (t) => {
  const hook = await startHook(t, (request) => ({ status: request === 0 ? 400 : 200 }));
  const receivers = [receiverOf('ops', hook)];
  const { store, sender } = setUp(t, receivers);
  const a = newIncident('a');
  change(store, receivers, undefined, a);
  sender.start();
  await until(() => store.outbox.counts().dead === 1, 'the refusal');
  change(store, receivers, a, resolved(a));
  sender.wake();
  await until(() => store.outbox.counts().void === 1, 'the end to be dropped');
  assert.equal(hook.requests.length, 1);
});

test('secrets rotate while it sends: both sign, and a file that is gone for a moment stops nothing', async (t) => {
  const hook = await startHook(t, OK);
  const files: { secret: string | undefined } = { secret: `whsec_${SECRET.toString('base64')}` };
  const sources = {
    env: {},
    readFile: () => {
      if (files.secret === undefined) throw Object.assign(new Error('gone'), { code: 'ENOENT' });
      return files.secret;
    },
  };
  const config = ReceiverConfig.parse({ name: 'ops', url: hook.url, secret_file: 's', allow_addresses: ['127.0.0.1'] });
  const receivers = [resolveReceiver(config, sources)];
  const { store, sender, logged } = setUp(t, receivers);
  sender.start();
  const next = Buffer.alloc(24, 9);
  const steps: [string | undefined, Buffer[]][] = [
    [files.secret, [SECRET]],
    [`whsec_${next.toString('base64')} ${files.secret}`, [next, SECRET]],
    [undefined, [next, SECRET]],
    [`whsec_${next.toString('base64')}`, [next]],
  ];
  for (const [i, [secret, signers]] of steps.entries()) {
    files.secret = secret;
    change(store, receivers, undefined, newIncident(`incident-${i}`));
    sender.wake();
    await until(() => store.outbox.counts().delivered === i + 1, 'the delivery');
    const { headers, body } = hook.requests[i] as Hook['requests'][0];
    assert.equal(String(headers['webhook-signature']).split(' ').length, signers.length);
    for (const signer of signers)
      new Webhook(`whsec_${signer.toString('base64')}`).verify(body, headers as Record<string, string>);
  }
  assert.doesNotMatch(logged.join(''), new RegExp(`${SECRET.toString('base64')}|${next.toString('base64')}`));
});

test('an end is told to whom the beginning was sent without an answer, and not to whom it never was', async (t) => {
  const slow = await startHook(t, (request) => (request === 0 ? 'stall' : { status: 200 }));
  const receivers = [
    receiverOf('slow', slow, { maxAttempts: 1 }),
    receiverOf('private', { url: 'http://10.0.0.1/' }, { maxAttempts: 1 }),
  ];
  const { store, sender, clock } = setUp(t, receivers);
  const a = newIncident('a');
  change(store, receivers, undefined, a);
  sender.start();
  await until(() => slow.requests.length === 1 && store.outbox.counts().dead === 1, 'the requests');
  clock.advanceTo(clock.now() + 10_000);
  await until(() => store.outbox.counts().dead === 2, 'both to be given up');
  change(store, receivers, a, resolved(a));
  sender.wake();
  await until(() => store.outbox.counts().delivered === 1 && store.outbox.counts().void === 1, 'the end');
  assert.deepEqual(
    slow.requests.map(({ body }) => JSON.parse(body).status),
    ['firing', 'resolved'],
  );
});
