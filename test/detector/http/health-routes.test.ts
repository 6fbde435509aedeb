import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PicketError } from '../../../protocol/errors.js';
import { problemIn, setUpServer } from './support.js';

test('healthy and ready', async (t) => {
  const { app } = setUpServer(t, { probes: [{ name: 'store', check: () => undefined }] });
  for (const [url, body] of [
    ['/healthz', { status: 'ok' }],
    ['/readyz', { status: 'ready' }],
  ] as const) {
    const response = await app.inject(url);
    assert.equal(response.statusCode, 200);
    assert.deepEqual(response.json(), body);
  }
});

test('not ready names every reason, and is still healthy', async (t) => {
  const fail = (error: Error) => () => {
    throw error;
  };
  const probes = [
    { name: 'rules', check: () => undefined },
    { name: 'bus', check: () => 'has not joined the group' },
    { name: 'store', check: fail(new PicketError('store_unavailable', 'disk full', { file: '/var/lib/picket.db' })) },
    { name: 'other', check: fail(new TypeError('x of undefined')) },
  ];
  const { app } = setUpServer(t, { probes });
  const response = await app.inject('/readyz');
  assert.equal(response.statusCode, 503);
  assert.deepEqual(problemIn(response).reasons, [
    { probe: 'bus', reason: 'has not joined the group' },
    { probe: 'store', reason: 'disk full' },
    { probe: 'other', reason: 'check failed' },
  ]);
  assert.equal((await app.inject('/healthz')).statusCode, 200);
});

test('metrics come in the text format of Prometheus', async (t) => {
  const { app } = setUpServer(t);
  const response = await app.inject('/metrics');
  assert.equal(response.statusCode, 200);
  assert.equal(response.headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8');
  assert.match(response.body, /^# TYPE picket_rows_total counter$/m);
});
