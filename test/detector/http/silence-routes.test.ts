import assert from 'node:assert/strict';
import { test } from 'node:test';
import { problemIn, setUpServer } from './support.js';

const GIVEN = { match: { job: 'llama*', host: ['h1', 'h2'] }, duration: '2h', author: 'eve', reason: 'burn-in' };
const at = (ms: number): string => new Date(ms).toISOString();

test('a silence is made, shown, listed by status, and ended rather than deleted', async (t) => {
  const { app, nowMs } = setUpServer(t);
  const made = await app.inject({ method: 'POST', url: '/v1/silences', payload: GIVEN });
  assert.equal(made.statusCode, 201);
  const { id, ...silence } = made.json();
  assert.equal(made.headers.location, `/v1/silences/${id}`);
  assert.deepEqual(silence, {
    ...{ status: 'active', match: GIVEN.match, starts_at: at(nowMs), ends_at: at(nowMs + 7_200_000) },
    ...{ author: 'eve', reason: 'burn-in', created_at: at(nowMs) },
  });
  assert.deepEqual((await app.inject(`/v1/silences/${id}`)).json(), made.json());

  const { duration: _, ...rest } = GIVEN;
  const later = { ...rest, starts_at: at(nowMs + 5000), ends_at: at(nowMs + 6000) };
  const pending = (await app.inject({ method: 'POST', url: '/v1/silences', payload: later })).json();
  assert.equal(pending.status, 'pending');
  const listed = async (query = '') =>
    (await app.inject(`/v1/silences${query}`)).json().items.map((each: { id: string }) => each.id);
  assert.deepEqual((await listed()).sort(), [id, pending.id].sort());
  assert.deepEqual(await listed('?status=pending&status=expired'), [pending.id]);

  for (let i = 0; i < 2; i++) {
    const ended = await app.inject({ method: 'DELETE', url: `/v1/silences/${id}` });
    assert.deepEqual([ended.statusCode, ended.json().status, ended.json().ends_at], [200, 'expired', at(nowMs)]);
  }
  assert.deepEqual(await listed('?status=expired'), [id]);
});

test('what is no silence is refused with every mistake named', async (t) => {
  const { app, nowMs } = setUpServer(t);
  const cases: [object, string[]][] = [
    [{}, ['/author', '/match', '/reason']],
    [{ ...GIVEN, match: {} }, ['/match']],
    [{ ...GIVEN, match: { job: '*', kind: ['**'] } }, ['/match']],
    [{ ...GIVEN, match: { 'a-b': 'x' } }, ['/match/a-b']],
    [{ ...GIVEN, match: { severity: ['info', 'hgih'], kind: '!stragler' } }, ['/match/kind', '/match/severity']],
    [{ ...GIVEN, match: { hots: 'h1', node: 'h1', team: 'a' } }, ['/match/hots', '/match/node']],
    [{ ...GIVEN, match: { job: 'x'.repeat(5000) } }, ['/match']],
    [{ ...GIVEN, author: ' ' }, ['/author']],
    [{ ...GIVEN, reason: undefined }, ['/reason']],
    [{ ...GIVEN, duration: '2 hours' }, ['/duration']],
    [{ ...GIVEN, duration: '20 steps' }, ['/duration']],
    [{ ...GIVEN, duration: '0' }, ['/duration']],
    [{ ...GIVEN, duration: undefined }, ['/ends_at']],
    [{ ...GIVEN, ends_at: at(nowMs + 1) }, ['/ends_at']],
    [{ ...GIVEN, starts_at: at(nowMs - 9_000_000) }, ['/duration']],
    [{ ...GIVEN, duration: undefined, ends_at: 'tomorrow' }, ['/ends_at']],
    [{ ...GIVEN, comment: 'x' }, ['/comment']],
  ];
  for (const [payload, pointers] of cases) {
    const response = await app.inject({ method: 'POST', url: '/v1/silences', payload });
    assert.equal(response.statusCode, 400, JSON.stringify(payload));
    const errors = problemIn(response).errors as { pointer: string }[];
    assert.deepEqual([...new Set(errors.map(({ pointer }) => pointer))].sort(), pointers, JSON.stringify(payload));
  }
  const payload = { ...GIVEN, author: 5, reason: undefined };
  const { errors } = problemIn(await app.inject({ method: 'POST', url: '/v1/silences', payload }));
  assert.deepEqual(errors, [
    { pointer: '/author', message: 'must be a text in quotes' },
    { pointer: '/reason', message: 'is missing' },
  ]);
  assert.deepEqual((await app.inject('/v1/silences')).json(), { items: [] });
});

test('silences that are not there, and methods and bodies that are not taken', async (t) => {
  const { app } = setUpServer(t);
  for (const method of ['GET', 'DELETE'] as const)
    assert.equal(
      problemIn(await app.inject({ method, url: '/v1/silences/none' })).type,
      'urn:picket:problem:not_found',
    );
  const put = await app.inject({ method: 'PUT', url: '/v1/silences/none', payload: {} });
  assert.deepEqual([problemIn(put).status, put.headers.allow], [405, 'GET, HEAD, DELETE']);
  assert.equal(problemIn(await app.inject('/v1/silences?status=over')).status, 400);
  // A page of another site can send text, but not JSON.
  for (const [type, status] of [
    ['text/plain', 400],
    ['application/xml', 415],
  ] as const) {
    const headers = { 'content-type': type };
    const payload = JSON.stringify(GIVEN);
    assert.equal(problemIn(await app.inject({ method: 'POST', url: '/v1/silences', payload, headers })).status, status);
  }
});
