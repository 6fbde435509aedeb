import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Dispatcher } from '../../../detector/notify/dispatcher.js';
import { routesOf } from '../../../detector/notify/route.js';
import { commitTo, newIncident, newNotification } from '../store/support.js';
import { problemIn, setUpServer } from './support.js';

test('what was given up is listed by pages, and told after all when asked for', async (t) => {
  let woken = 0;
  const { app, store } = setUpServer(t, { onRedrive: () => woken++ });
  const incidents = ['a', 'b', 'c'].map((id) => newIncident(id));
  commitTo(store, { incidents, notifications: incidents.map((each) => newNotification(`n-${each.id}`, each)) });
  const routes = routesOf([], [{ name: 'ops', minSeverity: 'info', sendResolved: true }]);
  const dispatcher = new Dispatcher('ops', { groups: store.groups, routes, silences: { until: () => undefined } });
  while (dispatcher.dispatch(2e6)) {}
  for (const { id } of incidents) store.outbox.beginAttempts([`n-${id}`]);
  for (const { id } of incidents)
    store.outbox.recordAttempt(`n-${id}`, { state: 'dead', error: 'HTTP 400', arrived: false }, []);

  const first = (await app.inject('/v1/notifications?state=dead&receiver=ops&limit=2')).json();
  assert.deepEqual(first.items[0], {
    ...{ id: 'n-c', receiver: 'ops', group_key: '{}:{incident_id="c"}', state: 'dead', attempts: 1, error: 'HTTP 400' },
    ...{ incidents: ['c'], created_at: '1970-01-01T00:16:40.000Z', changed_at: '1970-01-01T00:16:40.000Z' },
  });
  const second = (await app.inject(`/v1/notifications?state=dead&limit=2&cursor=${first.next_cursor}`)).json();
  assert.deepEqual([second.items.map(({ id }: { id: string }) => id), second.next_cursor], [['n-a'], null]);

  const redrive = (url: string) => app.inject({ method: 'POST', url });
  assert.deepEqual((await redrive('/v1/notifications/n-b/redrive')).json(), { redriven: 1 });
  assert.equal(problemIn(await redrive('/v1/notifications/n-b/redrive')).status, 404);
  assert.deepEqual((await redrive('/v1/notifications/redrive?receiver=pager')).json(), { redriven: 0 });
  assert.equal(woken, 1);
  assert.deepEqual((await redrive('/v1/notifications/redrive')).json(), { redriven: 2 });
  assert.deepEqual((await app.inject('/v1/notifications?state=dead')).json(), { items: [], next_cursor: null });
  for (const url of ['/v1/notifications?state=lost', '/v1/notifications?cursor=x', '/v1/notifications?limit=0'])
    assert.equal(problemIn(await app.inject(url)).status, 400, url);
  assert.equal(problemIn(await app.inject('/v1/notifications/redrive')).status, 405);
});

test('a receiver that there is none of is not found, and those that there are are named', async (t) => {
  const { app, store } = setUpServer(t);
  const detailOf = async (method: 'GET' | 'POST', url: string) =>
    problemIn(await app.inject({ method, url: `/v1/notifications${url}` }));
  for (const [method, url] of [
    ['GET', '?state=dead&receiver='],
    ['POST', '/redrive?receiver='],
  ] as const) {
    const { status, detail, errors } = await detailOf(method, `${url}opps`);
    assert.equal(status, 404);
    assert.equal(detail, 'there is no receiver "opps"; did you mean "ops"? configured are ops, pager');
    assert.deepEqual(errors, [{ pointer: '/receiver', message: 'there is no receiver "opps"' }]);
    assert.match(String((await detailOf(method, `${url}chat`)).detail), /"chat"; configured are ops, pager$/);
  }
  assert.deepEqual((await app.inject('/v1/notifications?receiver=pager')).json().items, []);

  const gone = newIncident('a');
  commitTo(store, { incidents: [gone], notifications: [newNotification('n-a', gone, 'opened', 'gone')] });
  const messages = [{ id: 'n-a', changes: [1], also: [], truncated: 0 }];
  store.groups.flush(
    'gone',
    new Map([['{}:{incident_id="a"}', { messages, held: [], superseded: [], dueMs: undefined }]]),
  );
  const { items } = (await app.inject('/v1/notifications?receiver=gone')).json();
  assert.deepEqual(
    items.map(({ id }: { id: string }) => id),
    ['n-a'],
    'what one has left that is configured no more',
  );
});
