import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { IncidentFilter, Store } from '../../../detector/store/store.js';
import { PicketError } from '../../../protocol/errors.js';
import { type Incident, timestampOf } from '../../../protocol/incident.js';
import { commitTo, newIncident, resolved, temporaryStore } from './support.js';

const listed = (store: Store, filter: IncidentFilter, limit = 100): string[] =>
  store.listIncidents(filter, undefined, limit).items.map(({ id }) => id);

test('every filter admits its own, several values any of them', (t) => {
  const { store } = temporaryStore(t);
  const at = (hour: number) => `2026-03-01T${hour}:00:00Z`;
  commitTo(store, {
    incidents: [
      newIncident('a', { started_at: at(10), subject: { ranks: [3, 11] } }),
      newIncident('b', { started_at: at(11), kind: 'comm_slow', subject: { job: 'gpt', ranks: [] } }),
      newIncident('c', { started_at: at(12), status: 'acknowledged', rule: { id: 'mine', commit: 'f00' } }),
      resolved(newIncident('d', { started_at: at(13), subject: { ranks: [1] } }), at(14)),
    ],
  });
  const cases: [IncidentFilter, string][] = [
    [{}, 'dcba'],
    [{ status: [] }, 'dcba'],
    [{ status: ['open'] }, 'ba'],
    [{ status: ['open', 'acknowledged'] }, 'cba'],
    [{ kind: ['comm_slow'] }, 'b'],
    [{ job: ['gpt', 'other'] }, 'b'],
    [{ rank: [1] }, 'd'],
    [{ rank: [3] }, 'ca'],
    [{ rank: [11, 1] }, 'da'],
    [{ rule: ['mine'] }, 'c'],
    [{ since: at(14) }, 'dcba'],
    [{ since: '2026-03-01T14:00:00.000000001Z' }, 'cba'],
    [{ until: at(11) }, 'ba'],
    [{ until: '2026-03-01T10:59:59.999999999Z' }, 'a'],
    [{ until: '2026-03-01T12:00:00+01:00' }, 'ba'],
    [{ status: ['open'], rank: [3], job: ['llama'] }, 'a'],
    [{ status: ['open'], rank: [1] }, ''],
  ];
  for (const [filter, ids] of cases) assert.deepEqual(listed(store, filter), [...ids], JSON.stringify(filter));
});

test('an update changes what a filter sees but not the place in the list', (t) => {
  const { store } = temporaryStore(t);
  const incident = newIncident('a', { started_at: '2026-03-01T10:00:00Z' });
  commitTo(store, { incidents: [incident, newIncident('b', { started_at: '2026-03-01T11:00:00Z' })] });
  commitTo(store, { incidents: [resolved({ ...incident, started_at: '2026-03-01T12:00:00Z' })] });
  assert.deepEqual(listed(store, {}), ['b', 'a']);
  assert.deepEqual(listed(store, { status: ['resolved'] }), ['a']);
});

test('the last page has no cursor, also when it is exactly full', (t) => {
  const { store } = temporaryStore(t);
  commitTo(store, { incidents: [newIncident('a'), newIncident('b')] });
  const first = store.listIncidents({}, undefined, 1);
  assert.ok(first.nextCursor);
  assert.equal(store.listIncidents({}, first.nextCursor, 1).nextCursor, undefined);
  assert.equal(store.listIncidents({}, undefined, 2).nextCursor, undefined);
});

test('a cursor of another filter is refused by name', (t) => {
  const { store } = temporaryStore(t);
  commitTo(store, { incidents: [newIncident('a'), newIncident('b')] });
  const { nextCursor } = store.listIncidents({ status: ['open'] }, undefined, 1);
  assert.throws(
    () => store.listIncidents({}, nextCursor, 1),
    (error) => error instanceof PicketError && error.code === 'bad_input' && error.place.field === 'cursor',
  );
});

test('pages give every incident exactly once, newest first, whatever is added between them', (t) => {
  const { store } = temporaryStore(t);
  const { epoch } = store.acquire({ topic: 'phases', partition: 0 });
  let made = 0;
  // Few distinct times, so that ties and inserts on both sides of the cursor are common.
  const insert = (job: string, times: readonly number[]): Incident[] => {
    const incidents = times.map((time) =>
      newIncident(`i${made++ % 7}-${made}`, { started_at: timestampOf(BigInt(time)), subject: { job } }),
    );
    commitTo(store, { epoch, incidents });
    return incidents;
  };
  const times = fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 12 });
  const rounds = fc.array(times, { maxLength: 20 });
  fc.assert(
    fc.property(times, rounds, fc.integer({ min: 1, max: 4 }), (initial, between, limit) => {
      const job = `job${made++}`;
      const atFirst = insert(job, initial);
      const seen: Incident[] = [];
      let cursor: string | undefined;
      for (let page = 0; ; page++) {
        const { items, nextCursor } = store.listIncidents({ job: [job] }, cursor, limit);
        seen.push(...items);
        if (!nextCursor) break;
        assert.equal(items.length, limit);
        cursor = nextCursor;
        insert(job, between[page] ?? []);
      }
      const ids = seen.map(({ id }) => id);
      assert.equal(new Set(ids).size, ids.length, 'an incident twice');
      for (const { id } of atFirst) assert.ok(ids.includes(id), `${id} skipped`);
      const starts = seen.map(({ started_at }) => started_at);
      assert.deepEqual(starts, [...starts].sort().reverse());
    }),
  );
});
