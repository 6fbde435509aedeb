import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BusMessage } from '../../../bus/bus.js';
import { IncidentPublisher } from '../../../detector/incidents/publisher.js';
import { PicketError } from '../../../protocol/errors.js';
import { TOPICS } from '../../../protocol/topics.js';
import { commitTo, newIncident, resolved, temporaryStore } from '../store/support.js';

const LOG = { warn: () => undefined, error: () => undefined };

/** A log that takes what `fails` lets through. */
function logOf(fails: (messages: readonly BusMessage[]) => Error | undefined = () => undefined) {
  const sent: string[] = [];
  const send = async (topic: string, messages: readonly BusMessage[]): Promise<void> => {
    const error = fails(messages);
    if (error) throw error;
    assert.equal(topic, TOPICS.incidents);
    for (const { key, value } of messages) sent.push(`${key} ${JSON.parse(Buffer.from(value).toString()).status}`);
  };
  return { sent, producer: { send } };
}

test('every change is published in order, keyed by incident, and once while nothing fails', async (t) => {
  const { store } = temporaryStore(t);
  const [a, b] = [newIncident('a'), newIncident('b')];
  commitTo(store, { incidents: [a, b], changes: [a, b] });
  const { sent, producer } = logOf();
  const publisher = new IncidentPublisher(store.feed, producer, LOG);
  await publisher.wake();
  commitTo(store, { incidents: [resolved(a)], changes: [resolved(a)] });
  await Promise.all([publisher.wake(), publisher.wake()]);
  assert.deepEqual(sent, ['a open', 'b open', 'a resolved']);
  assert.deepEqual(store.feed.next(10), []);
});

test('what a broker did not take waits; what is sent and not noted comes again', async (t) => {
  const { store } = temporaryStore(t);
  const a = newIncident('a');
  commitTo(store, { incidents: [a], changes: [a, resolved(a)] });
  let away = true;
  const { sent, producer } = logOf(() => (away ? new PicketError('bus_unavailable', 'no broker') : undefined));
  await new IncidentPublisher(store.feed, producer, LOG).wake();
  assert.deepEqual(sent, []);
  away = false;
  const forgetful = { next: (limit: number) => store.feed.next(limit), published: () => assert.fail('killed') };
  await new IncidentPublisher(forgetful, producer, LOG).wake();
  await new IncidentPublisher(store.feed, producer, LOG).wake();
  assert.deepEqual(sent, ['a open', 'a resolved', 'a open', 'a resolved']);
});

test('a change that is too large for the log does not hold up the others', async (t) => {
  const { store } = temporaryStore(t);
  const [a, b, c] = [newIncident('a'), newIncident('b', { summary: 'x'.repeat(9000) }), newIncident('c')];
  commitTo(store, { incidents: [a, b, c], changes: [a, b, c] });
  const { sent, producer } = logOf((messages) =>
    messages.some(({ value }) => value.length > 9000) ? new PicketError('too_large', 'too large') : undefined,
  );
  await new IncidentPublisher(store.feed, producer, LOG).wake();
  assert.deepEqual(sent, ['a open', 'c open']);
  assert.deepEqual(store.feed.next(10), []);
});

test('an acknowledgement stays until the incident reopens', (t) => {
  const { store } = temporaryStore(t);
  const a = newIncident('a');
  commitTo(store, { incidents: [a] });
  assert.equal(store.acknowledge('none', { author: 'kim', note: '', atMs: 5 }), undefined);
  const first = store.acknowledge('a', { author: 'kim', note: '', atMs: 5 });
  assert.deepEqual(store.acknowledge('a', { author: 'lee', note: '', atMs: 6 }), first);
  commitTo(store, { incidents: [{ ...a, last_step: 900 }] });
  assert.deepEqual([store.incident('a')?.status, store.incident('a')?.last_step], ['acknowledged', 900]);
  commitTo(store, { incidents: [resolved(a)], changes: [resolved(a)] });
  assert.deepEqual(
    store
      .incident('a')
      ?.timeline.map(({ event }) => event)
      .includes('acknowledged'),
    true,
  );
  assert.equal(store.incident('a')?.status, 'resolved');
  assert.throws(() => store.acknowledge('a', { author: 'kim', note: '', atMs: 7 }), /the incident is over/);
  commitTo(store, { incidents: [{ ...a, reopened: 1 }] });
  assert.equal(store.incident('a')?.status, 'open');
});
