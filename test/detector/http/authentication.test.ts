import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ruleRoutes } from '../../../detector/rules/routes.js';
import { commitTo, newIncident } from '../store/support.js';
import { problemIn, setUpServer } from './support.js';

const SILENCE = { match: { job: 'a' }, duration: '1h', author: 'eve', reason: 'x' };

test('with a token every write needs it, and no read does', async (t) => {
  let tokens = ['old'];
  const { app, store } = setUpServer(t, { apiTokens: () => tokens });
  commitTo(store, { incidents: [newIncident('a')] });
  const writes = [
    ['POST', '/v1/silences'],
    ['DELETE', '/v1/silences/none'],
    ['POST', '/v1/incidents/a/ack'],
    ['POST', '/v1/notifications/redrive'],
    ['POST', '/v1/notifications/none/redrive'],
  ] as const;
  const send = (method: 'POST' | 'DELETE', url: string, authorization?: string) =>
    app.inject({
      method,
      url,
      payload: '{broken',
      headers: { 'content-type': 'application/json', ...(authorization && { authorization }) },
    });
  for (const [method, url] of writes) {
    const without = await send(method, url);
    assert.equal(problemIn(without).status, 401, url);
    assert.equal(without.headers['www-authenticate'], 'Bearer realm="picket"');
    for (const wrong of ['Bearer new', 'Bearer oldold', 'Basic old', 'old', 'Bearer ', 'Bearer old x'])
      assert.equal((await send(method, url, wrong)).statusCode, 401, `${url} ${wrong}`);
    assert.match(String((await send(method, url, 'Bearer new')).headers['www-authenticate']), /error="invalid_token"/);
    assert.notEqual((await send(method, url, 'bearer old')).statusCode, 401, url);
  }
  for (const url of ['/v1/incidents', '/v1/incidents/a', '/v1/silences', '/v1/notifications', '/metrics', '/healthz'])
    assert.equal((await app.inject(url)).statusCode, 200, url);

  tokens = ['new', 'old'];
  const add = async (token: string) =>
    (
      await app.inject({
        method: 'POST',
        url: '/v1/silences',
        payload: SILENCE,
        headers: { authorization: `Bearer ${token}` },
      })
    ).statusCode;
  assert.deepEqual([await add('new'), await add('old')], [201, 201]);
  tokens = ['new'];
  assert.deepEqual([await add('new'), await add('old')], [201, 401]);
});

test('looking at the rules needs no token: who calls it cannot always bring one', async (t) => {
  const { app } = setUpServer(t, { apiTokens: () => ['x'] });
  const unchanged = { state: 'unchanged', commit: 'c', rules: 15 } as const;
  const status = () => assert.fail('not asked for');
  ruleRoutes(app, { reload: async () => unchanged, status });
  assert.deepEqual((await app.inject({ method: 'POST', url: '/-/reload' })).json(), unchanged);
});

test('a token that cannot be read any more lets nobody in, and is told to nobody', async (t) => {
  const apiTokens = () => {
    throw new Error('/etc/picket/api-token: ENOENT');
  };
  const { app } = setUpServer(t, { apiTokens });
  const headers = { authorization: 'Bearer x' };
  const response = await app.inject({ method: 'POST', url: '/v1/silences', payload: SILENCE, headers });
  assert.equal(problemIn(response).status, 500);
  assert.doesNotMatch(response.body, /etc/);
  assert.equal((await app.inject('/v1/silences')).json().items.length, 0);
});
