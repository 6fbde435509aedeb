import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FastifyInstance } from 'fastify';
import { PicketError } from '../../../protocol/errors.js';
import { commitTo, newIncident, resolved } from '../store/support.js';
import { problemIn, setUpServer } from './support.js';

const list = async (app: FastifyInstance, query = '') => (await app.inject(`/v1/incidents${query}`)).json();
const idsIn = (body: { items: { id: string }[] }) => body.items.map(({ id }) => id);

test('incidents are listed newest first, by repeated filters', async (t) => {
  const { app, store, nowMs } = setUpServer(t);
  const early = newIncident('a', { started_at: '2026-03-01T10:00:00Z' });
  const late = newIncident('b', {
    started_at: '2026-03-01T11:00:00Z',
    kind: 'comm_slow',
    severity: 'critical',
    subject: { ranks: [12] },
  });
  const over = resolved(newIncident('c', { started_at: '2026-03-01T09:00:00Z', rule: { id: 'mine', commit: null } }));
  commitTo(store, { incidents: [early, late, over], jobs: [{ job: 'llama', run: '1', lastDataMs: nowMs }] });
  const items = [late, early, over].map((incident) => ({ ...incident, silenced_by: [] }));
  assert.deepEqual(await list(app), { items, next_cursor: null });
  const cases: [string, string[]][] = [
    ['?status=open', ['b', 'a']],
    ['?status=open&status=resolved', ['b', 'a', 'c']],
    ['?kind=comm_slow', ['b']],
    ['?rank=12&rank=4', ['b']],
    ['?severity=critical', ['b']],
    ['?severity=info&severity=warning&status=open', ['a']],
    ['?rule=mine', ['c']],
    ['?job=llama&rank=3', ['a', 'c']],
    ['?until=2026-03-01T10:00:00Z', ['a', 'c']],
    ['?since=2026-03-01T11:00:00.1Z', ['b', 'a']],
    ['?until=2026-03-01T11:30:00%2B01:00', ['a', 'c']],
  ];
  for (const [query, ids] of cases) assert.deepEqual(idsIn(await list(app, query)), ids, query);
});

test('the members of a storm are listed by its id', async (t) => {
  const { app, store } = setUpServer(t);
  const members = ['a', 'b', 'c'].map((id) => newIncident(id, { part_of: 's' }));
  const storm = newIncident('s', { storm: { common: 'host', members: ['a', 'b', 'c'] } });
  commitTo(store, { incidents: [...members, storm, newIncident('d')] });
  assert.deepEqual(idsIn(await list(app, '?part_of=s')), ['c', 'b', 'a']);
  assert.deepEqual(idsIn(await list(app, '?part_of=s&status=resolved')), []);
  assert.deepEqual(idsIn(await list(app, '?part_of=a')), []);
});

test('an incident shows the silences that hold it back, and can be listed by that', async (t) => {
  const { app, store } = setUpServer(t);
  const over = resolved(newIncident('c', { kind: 'comm_slow' }));
  commitTo(store, { incidents: [newIncident('a'), newIncident('b', { kind: 'comm_slow' }), over] });
  const silence = async (facts: object): Promise<string> => {
    const payload = { match: { kind: 'comm_*' }, duration: '1h', author: 'eve', reason: 'burn-in', ...facts };
    return (await app.inject({ method: 'POST', url: '/v1/silences', payload })).json().id;
  };
  const [id] = [await silence({}), await silence({ starts_at: '2099-01-01T00:00:00Z' })];
  const { items } = await list(app);
  const silencedBy = Object.fromEntries(
    items.map((each: { id: string; silenced_by: string[] }) => [each.id, each.silenced_by]),
  );
  assert.deepEqual(silencedBy, { a: [], b: [id], c: [] });
  assert.deepEqual(idsIn(await list(app, '?silenced=true')), ['b']);
  assert.deepEqual(idsIn(await list(app, '?silenced=false')), ['c', 'a']);
  assert.deepEqual((await app.inject('/v1/incidents/b')).json().silenced_by, [id]);
  await app.inject({ method: 'DELETE', url: `/v1/silences/${id}` });
  assert.deepEqual(idsIn(await list(app, '?silenced=true')), []);
});

test('the cursor leads through all pages of one filter', async (t) => {
  const { app, store } = setUpServer(t);
  commitTo(store, { incidents: ['a', 'b', 'c', 'd', 'e'].map((id) => newIncident(id)) });
  const seen: string[] = [];
  let query = '?status=open&limit=2';
  for (let page = 1; page <= 3; page++) {
    const body = await list(app, query);
    seen.push(...idsIn(body));
    assert.equal(body.next_cursor === null, page === 3);
    query = `?status=open&limit=2&cursor=${body.next_cursor}`;
  }
  assert.deepEqual(seen, ['e', 'd', 'c', 'b', 'a']);

  const { next_cursor } = await list(app, '?limit=1');
  const problem = problemIn(await app.inject(`/v1/incidents?status=open&cursor=${next_cursor}`));
  assert.equal(problem.type, 'urn:picket:problem:bad_input');
  assert.deepEqual(problem.errors, [{ pointer: '/cursor', message: 'not a cursor of this list' }]);
});

test('asking about nothing: unknown job, known job without incidents, job whose data has stopped', async (t) => {
  const { app, store, nowMs } = setUpServer(t);
  const jobs = [
    { job: 'quiet', run: '1', lastDataMs: nowMs - 60_000 },
    { job: 'stopped', run: '1', lastDataMs: nowMs - 600_000 },
  ];
  commitTo(store, { jobs });
  const unknown = await app.inject('/v1/incidents?job=nobody');
  assert.equal(unknown.statusCode, 404);
  const detailOf = async (job: string) => problemIn(await app.inject(`/v1/incidents?job=${job}`)).detail;
  const detail = 'no data of job "nobody" has ever come';
  assert.equal(problemIn(unknown).detail, `${detail}; the latest are quiet, stopped`);
  assert.equal(await detailOf('quite'), 'no data of job "quite" has ever come; did you mean "quiet"?');
  const { app: empty } = setUpServer(t);
  assert.equal(problemIn(await empty.inject('/v1/incidents?job=nobody')).detail, `${detail}; none has sent data yet`);
  assert.deepEqual(await list(app, '?job=quiet'), { items: [], next_cursor: null });
  assert.deepEqual(await list(app, '?job=stopped'), { items: [], next_cursor: null, stale: true });
  assert.deepEqual(await list(app, '?job=quiet&job=stopped'), { items: [], next_cursor: null, stale: true });
  assert.equal((await app.inject('/v1/incidents?job=quiet&job=nobody')).statusCode, 404);
});

test('every parameter that does not fit is named', async (t) => {
  const { app } = setUpServer(t);
  const cases: [string, string[]][] = [
    ['?stauts=open&limit=5', ['/stauts']],
    ['?status=open&status=shut', ['/status/1']],
    ['?rank=-1&kind=slow', ['/kind/0', '/rank/0']],
    ['?rank=', ['/rank/0']],
    ['?rank=1e3', ['/rank/0']],
    ['?severity=page&silenced=maybe', ['/severity/0', '/silenced']],
    ['?rank=99999999', ['/rank/0']],
    ['?limit=0', ['/limit']],
    ['?limit=201', ['/limit']],
    ['?limit=5&limit=6', ['/limit']],
    ['?since=yesterday', ['/since']],
    ['?since=2026-03-01', ['/since']],
    ['?since=2026-03-02T00:00:00Z&until=2026-03-01T00:00:00Z', ['/until']],
    ['?job=', ['/job/0']],
    ['?a%2Fb~=1', ['/a~1b~0']],
    [`?${'rank=1&'.repeat(101)}`, ['/rank']],
    ['?cursor=x', ['/cursor']],
  ];
  for (const [query, pointers] of cases) {
    const response = await app.inject(`/v1/incidents${query}`);
    assert.equal(response.statusCode, 400, query);
    const errors = problemIn(response).errors as { pointer: string; message: string }[];
    assert.deepEqual(errors.map(({ pointer }) => pointer).sort(), pointers, query);
    for (const { message } of errors) assert.ok(message.length > 0);
  }
});

test('one incident, with a tag for polling', async (t) => {
  const { app, store } = setUpServer(t);
  const incident = newIncident('a');
  commitTo(store, { incidents: [incident] });
  const first = await app.inject('/v1/incidents/a');
  assert.deepEqual(first.json(), { ...incident, silenced_by: [] });
  const etag = first.headers.etag as string;
  assert.match(etag, /^"[\w-]{22}"$/);

  const poll = (tag: string) => app.inject({ url: '/v1/incidents/a', headers: { 'if-none-match': tag } });
  for (const tag of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
    const unchanged = await poll(tag);
    assert.deepEqual([unchanged.statusCode, unchanged.body, unchanged.headers.etag], [304, '', etag], tag);
  }
  commitTo(store, { incidents: [{ ...incident, last_step: 301 }] });
  const changed = await poll(etag);
  assert.equal(changed.statusCode, 200);
  assert.notEqual(changed.headers.etag, etag);
  assert.equal(changed.json().last_step, 301);
});

test('an incident that does not exist', async (t) => {
  const { app } = setUpServer(t);
  const response = await app.inject('/v1/incidents/none');
  assert.equal(response.statusCode, 404);
  const { type, title, instance } = problemIn(response);
  assert.deepEqual([type, title, instance], ['urn:picket:problem:not_found', 'Not Found', '/v1/incidents/none']);
});

test('a store that fails is 503, without a word of where it lies', async (t) => {
  const fail = () => {
    throw new PicketError('store_unavailable', 'disk I/O error', { file: '/var/lib/picket.db', remedy: 'free space' });
  };
  const { app } = setUpServer(t, {
    incidents: { acknowledge: fail, incident: fail, listIncidents: fail, job: fail, jobNames: fail },
  });
  for (const url of ['/v1/incidents', '/v1/incidents/a']) {
    const response = await app.inject(url);
    assert.equal(response.statusCode, 503);
    assert.equal(problemIn(response).type, 'urn:picket:problem:store_unavailable');
    assert.doesNotMatch(response.body, /var|disk|space/);
  }
});
