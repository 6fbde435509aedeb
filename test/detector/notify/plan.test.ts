import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MAX_ALERTS, planGroup } from '../../../detector/notify/plan.js';
import { AT_ONCE, type GroupTiming } from '../../../detector/notify/route.js';
import type { DueGroup, PendingChange } from '../../../detector/store/outbox.js';
import type { Incident } from '../../../protocol/incident.js';
import { newIncident } from '../store/support.js';

const TIMED: GroupTiming = { waitMs: 30_000, intervalMs: 300_000, repeatMs: 0 };
const REPEATED: GroupTiming = { ...AT_ONCE, repeatMs: 1000 };

const change = (seq: number, incident: string, facts: Partial<PendingChange> = {}): PendingChange => ({
  ...{ seq, id: `change-${seq}`, event: 'opened', incident: newIncident(incident), createdMs: 0 },
  ...{ held: false, superseded: false },
  ...facts,
});
const told = (seq: number, incident: string) => ({ seq, incident: newIncident(incident) });
const group = (facts: Partial<DueGroup>): DueGroup => ({
  ...{ key: 'g', route: '', labels: {}, flushedMs: null, waiting: false, pending: [], told: [] },
  ...facts,
});
const never = () => undefined;
const mutes =
  (...ids: string[]) =>
  ({ id }: Incident) =>
    ids.includes(id) ? 9000 : undefined;
const plan = (
  facts: Partial<DueGroup>,
  timing: GroupTiming,
  nowMs: number,
  mutedUntil: (incident: Incident) => number | undefined = never,
) => {
  const { messages, ...rest } = planGroup('ops', group(facts), timing, mutedUntil, nowMs);
  return { ...rest, messages: messages.map(({ changes, also }) => [changes, also]) };
};
const IDLE = { held: [], superseded: [], dueMs: undefined };

test('at once: a message for every change, in order', () => {
  const pending = [change(1, 'a'), change(2, 'b'), change(3, 'a', { event: 'resolved' })];
  const { messages } = planGroup('ops', group({ pending }), AT_ONCE, never, 5);
  assert.deepEqual(
    messages.map(({ id, changes }) => [id, changes]),
    [
      ['change-1', [1]],
      ['change-2', [2]],
      ['change-3', [3]],
    ],
  );
});

test('a group waits for others, and then for its interval', () => {
  const pending = [change(1, 'a', { createdMs: 1000 }), change(2, 'b', { createdMs: 20_000 })];
  assert.deepEqual(plan({ pending }, TIMED, 30_999), { ...IDLE, dueMs: 31_000, messages: [] });
  assert.deepEqual(plan({ pending }, TIMED, 31_000), { ...IDLE, messages: [[[1, 2], []]] });
  const later = {
    pending: [change(3, 'c', { createdMs: 40_000 })],
    flushedMs: 31_000,
    told: [told(1, 'a'), told(2, 'b')],
  };
  assert.deepEqual(plan(later, TIMED, 100_000), { ...IDLE, dueMs: 331_000, messages: [] });
  assert.deepEqual(plan(later, TIMED, 331_000), { ...IDLE, messages: [[[3], [1, 2]]] });
});

test('what is silenced waits, with the rest told without it; its end is told all the same', () => {
  const pending = [change(1, 'a'), change(2, 'b'), change(3, 'c', { event: 'resolved' })];
  assert.deepEqual(plan({ pending, told: [told(0, 'd')] }, TIMED, 1e6, mutes('a', 'c', 'd')), {
    ...{ held: [1], superseded: [], dueMs: 9000 },
    messages: [[[2, 3], []]],
  });
  assert.deepEqual(plan({ pending: [change(1, 'a')] }, AT_ONCE, 10, mutes('a')), {
    ...{ held: [1], superseded: [], dueMs: 9000, messages: [] },
  });
});

test('what had to wait is told as it is by then, in one message', () => {
  const pending = [change(1, 'a', { held: true }), change(2, 'b'), change(3, 'a', { event: 'escalated' })];
  const { messages } = planGroup('ops', group({ pending }), AT_ONCE, never, 10_000);
  assert.deepEqual(
    messages.map(({ changes }) => changes),
    [[1, 3], [2]],
  );
  assert.match(messages[0]?.id ?? '', /^[0-9a-f]{32}$/);
});

test('what is out of date is dropped', () => {
  const pending = [change(1, 'a', { superseded: true, held: true }), change(2, 'b', { held: true })];
  assert.deepEqual(plan({ pending }, AT_ONCE, 10), { ...IDLE, superseded: [1], messages: [[[2], []]] });
});

test('what still fires is told again after the repeat interval, unless it is silenced or a message is on its way', () => {
  const facts = { told: [told(1, 'a'), told(2, 'b')], flushedMs: 500 };
  assert.deepEqual(plan(facts, REPEATED, 1499), { ...IDLE, dueMs: 1500, messages: [] });
  assert.deepEqual(plan(facts, REPEATED, 1500), { ...IDLE, dueMs: 2500, messages: [[[], [1, 2]]] });
  assert.deepEqual(plan(facts, REPEATED, 1500, mutes('b')), { ...IDLE, dueMs: 2500, messages: [[[], [1]]] });
  assert.deepEqual(plan(facts, REPEATED, 1500, mutes('a', 'b')), { ...IDLE, dueMs: 2500, messages: [] });
  assert.deepEqual(plan({ ...facts, waiting: true }, REPEATED, 1500), { ...IDLE, dueMs: 2500, messages: [] });
  assert.deepEqual(plan({ flushedMs: 500 }, REPEATED, 1500), { ...IDLE, messages: [] }, 'nothing fires');
  assert.deepEqual(plan(facts, AT_ONCE, 1e9), { ...IDLE, messages: [] }, 'no repeat interval');
  const held = { ...facts, pending: [change(3, 'c')] };
  assert.deepEqual(plan(held, REPEATED, 1500, mutes('c')), {
    ...{ held: [3], superseded: [], dueMs: 2500, messages: [[[], [1, 2]]] },
  });
  const ids = [500, 500, 501].map(
    (flushedMs) => planGroup('ops', group({ ...facts, flushedMs }), REPEATED, never, 9000).messages[0]?.id,
  );
  assert.deepEqual([ids[0] === ids[1], ids[0] === ids[2]], [true, false]);
});

test('a storm is told in messages of bounded size, and nothing is left out', () => {
  const pending = Array.from({ length: MAX_ALERTS * 2 + 1 }, (_, i) => change(i, `incident-${i}`));
  const others = Array.from({ length: 10 }, (_, i) => told(10_000 + i, `other-${i}`));
  const { messages } = planGroup('ops', group({ pending, told: others }), TIMED, never, 1e6);
  assert.deepEqual(
    messages.map(({ changes, also, truncated }) => [changes.length, also.length, truncated]),
    [
      [MAX_ALERTS, 0, 10],
      [MAX_ALERTS, 0, 10],
      [1, 10, 0],
    ],
  );
  assert.equal(new Set(messages.flatMap(({ changes }) => changes)).size, pending.length);
});
