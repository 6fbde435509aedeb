import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { pino } from 'pino';
import { post } from '../../../detector/notify/http-post.js';
import { notificationsFor } from '../../../detector/notify/notifications.js';
import { Sender } from '../../../detector/notify/sender.js';
import { commitTo, newIncident, temporaryStore } from '../store/support.js';
import { FakeClock, receiverOf, sending, startHook, until } from './support.js';

const MINUTE_MS = 60_000;

test('fifty incidents at once, and five receivers of which one is well (prometheus/alertmanager#2286, #2121, #1494)', {
  timeout: 60_000,
}, async (t) => {
  const { store } = temporaryStore(t);
  const start = Date.now();
  const clock = new FakeClock(start);
  const hooks = {
    well: await startHook(t, () => ({ status: 200 })),
    down: await startHook(t, () => ({ status: clock.now() < start + 10 * MINUTE_MS ? 503 : 200 })),
    busy: await startHook(t, () =>
      clock.now() < start + 2 * MINUTE_MS ? { status: 429, headers: { 'retry-after': '120' } } : { status: 200 },
    ),
    stalled: await startHook(t, () => 'stall'),
    refusing: await startHook(t, () => ({ status: 400 })),
  };
  const receivers = Object.entries(hooks).map(([name, hook]) => receiverOf(name, hook));

  const wiring = sending(store, receivers);
  const sent: { name: string; id: string; atMs: number }[] = [];
  const waiting = new Set<{ name: string; sinceMs: number }>();
  const outcomes = new Map<string, number>();
  const recording: typeof post = async (outgoing, options, signal) => {
    const { name } = receivers.find((receiver) => receiver.credentials().url === outgoing.url) as { name: string };
    sent.push({ name, id: outgoing.headers['webhook-id'] as string, atMs: clock.now() - start });
    const request = { name, sinceMs: clock.now() };
    waiting.add(request);
    return post(outgoing, options, signal).finally(() => waiting.delete(request));
  };
  const sender = new Sender({
    ...wiring,
    clock,
    random: () => 0.5,
    externalUrl: 'http://picket',
    log: pino({ enabled: false }),
    post: recording,
    onAttempt: (name, state) => outcomes.set(`${name} ${state}`, (outcomes.get(`${name} ${state}`) ?? 0) + 1),
  });
  const incidents = Array.from({ length: 50 }, (_, i) => newIncident(`incident-${i}`));
  commitTo(store, {
    incidents,
    notifications: incidents.flatMap((each) => notificationsFor(undefined, each, wiring.routes)),
  });

  sender.start();
  // Time moves only while every request is answered but those that no answer will come to.
  const answered = () =>
    [...waiting].every(({ name, sinceMs }) => name === 'stalled' && clock.now() < sinceMs + 10_000);
  const recorded = () => [...outcomes.values()].reduce((sum, count) => sum + count, 0) + waiting.size === sent.length;
  while (clock.now() < start + 25 * MINUTE_MS) {
    await until(() => answered() && recorded(), 'the answers');
    await setImmediate();
    if (answered() && recorded()) clock.advanceTo(Math.min(clock.next(), start + 25 * MINUTE_MS));
  }
  const closed = sender.close(0);
  clock.advanceTo(clock.now());
  await closed;

  const triesOf = (name: string) => {
    const tries = new Map<string, number[]>();
    for (const each of sent) if (each.name === name) tries.set(each.id, [...(tries.get(each.id) ?? []), each.atMs]);
    assert.equal(tries.size, 50);
    return [...tries.values()];
  };
  for (const tries of [...triesOf('well'), ...triesOf('refusing')]) assert.deepEqual(tries, [0]);
  assert.deepEqual([outcomes.get('well delivered'), outcomes.get('refusing dead')], [50, 50]);

  for (const tries of triesOf('down')) {
    assert.ok(tries.length <= 12, `${tries.length} tries`);
    assert.ok((tries.at(-1) as number) >= 10 * MINUTE_MS);
  }
  // It is asked ever more rarely, for all fifty together, and hears of them soon after it is well.
  const asked = [...new Set(sent.filter(({ name }) => name === 'down').map(({ atMs }) => atMs))];
  const whileDown = asked.filter((atMs) => atMs < 10 * MINUTE_MS);
  const gaps = whileDown.slice(1).map((atMs, i) => atMs - (whileDown[i] as number));
  for (const [i, gap] of gaps.slice(1).entries()) assert.ok(gap > (gaps[i] as number), `gaps ${gaps}`);
  const total = sent.filter(({ name }) => name === 'down').length;
  assert.ok(total <= 50 + 20, `${total} requests for 50 messages`);
  assert.ok((asked.at(-1) as number) <= 16 * MINUTE_MS, `heard of it at ${asked.at(-1)} ms`);
  assert.equal(outcomes.get('down delivered'), 50);

  const early = sent.filter(({ name, atMs }) => name === 'busy' && atMs < 2 * MINUTE_MS);
  assert.ok(early.length <= 4 && early.every(({ atMs }) => atMs === 0), 'sent before Retry-After passed');
  assert.equal(outcomes.get('busy delivered'), 50);

  const stalled = sent.filter(({ name }) => name === 'stalled');
  assert.equal(stalled[4]?.atMs, 10_000, 'more under way than allowed, or no timeout');
  assert.equal(outcomes.get('stalled delivered'), undefined);
});
