import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import { test } from 'node:test';
import { problemIn, setUpServer } from './support.js';

test('a path that is not there', async (t) => {
  const { app } = setUpServer(t);
  for (const url of ['/', '/v1/incident', '/v1/incidents/a/b', '/metrics/']) {
    const response = await app.inject(url);
    assert.equal(response.statusCode, 404, url);
    assert.deepEqual(problemIn(response), { type: 'about:blank', title: 'Not Found', status: 404, instance: url });
  }
});

test('a method that a resource does not have, whatever body comes with it', async (t) => {
  const { app } = setUpServer(t);
  for (const url of ['/v1/incidents', '/v1/incidents/a', '/healthz', '/readyz', '/metrics'])
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const) {
      const headers = { 'content-type': 'application/x-unknown' };
      const response = await app.inject({ method, url, headers, payload: '{broken' });
      assert.equal(response.statusCode, 405, `${method} ${url}`);
      assert.equal(response.headers.allow, 'GET, HEAD');
      problemIn(response);
    }
  assert.equal((await app.inject({ method: 'HEAD', url: '/healthz' })).statusCode, 200);
});

test('a body that is too large, of an unknown type or broken', async (t) => {
  const { app } = setUpServer(t);
  app.post('/echo', { bodyLimit: 100 }, async (request) => request.body);
  const post = (type: string, payload: string) =>
    app.inject({ method: 'POST', url: '/echo', headers: { 'content-type': type }, payload });
  const cases: [string, string, number][] = [
    ['application/json', JSON.stringify('x'.repeat(200)), 413],
    ['application/x-unknown', 'x', 415],
    ['application/json', '{broken', 400],
  ];
  for (const [type, payload, status] of cases) {
    const response = await post(type, payload);
    assert.equal(response.statusCode, status);
    const { detail } = problemIn(response);
    if (status === 415) assert.equal(detail, 'send the body as application/json');
  }
});

test('an unexpected error tells nothing of itself', async (t) => {
  const { app } = setUpServer(t);
  app.get('/fails', () => {
    throw new Error('secret detail');
  });
  const response = await app.inject('/fails');
  const title = 'Internal Server Error';
  assert.deepEqual(problemIn(response), { type: 'about:blank', title, status: 500, instance: '/fails' });
});

test('a path that cannot be decoded or is too long', async (t) => {
  const { app } = setUpServer(t);
  for (const [url, status] of [
    ['/v1/incidents/%E0%A4%A', 400],
    [`/v1/incidents/${'x'.repeat(200)}`, 414],
  ] as const) {
    const response = await app.inject(url);
    assert.equal(response.statusCode, status, response.body);
    problemIn(response);
  }
});

test('what is not HTTP gets a problem and the end of the connection', async (t) => {
  const { app } = setUpServer(t);
  await app.listen({ port: 0, host: '127.0.0.1' });
  const { port } = app.server.address() as AddressInfo;
  for (const [request, status] of [
    ['nonsense\r\n\r\n', 400],
    [`GET / HTTP/1.1\r\nHost: x\r\nX-Long: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
  ] as const) {
    const socket = connect(port, '127.0.0.1').setEncoding('utf8');
    let answer = '';
    socket.on('data', (chunk) => {
      answer += chunk;
    });
    socket.write(request);
    await once(socket, 'end');
    const [head, body] = answer.split('\r\n\r\n') as [string, string];
    assert.match(head, new RegExp(`^HTTP/1\\.1 ${status} .*Content-Type: application/problem\\+json`, 's'));
    assert.equal(JSON.parse(body).status, status);
  }
  assert.equal((await fetch(`http://127.0.0.1:${port}/healthz`)).status, 200);
});

test('a client that never ends its request does not keep it from stopping', async (t) => {
  const { app } = setUpServer(t);
  await app.listen({ host: '127.0.0.1', port: 0 });
  const client = connect((app.server.address() as AddressInfo).port, '127.0.0.1');
  const arrived = once(app.server, 'connection');
  client.write('POST /v1/silences HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{');
  const [gone] = [once(client, 'close'), await arrived];
  client.resume();
  await app.close();
  await gone;
  assert.ok(client.closed);
});
