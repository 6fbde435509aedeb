import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import { AddressGuard, networkOf, type Resolve } from '../../../detector/notify/address-guard.js';
import { systemClock } from '../../../detector/notify/clock.js';
import { post } from '../../../detector/notify/http-post.js';

const NAMED = 'http://name.example';
const answering =
  (...addresses: string[]): Resolve =>
  async () =>
    addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));

/** The error of one request; a connection that is made counts in `connections`. */
async function errorOf(url: string, allowed: string[] = [], resolve?: Resolve): Promise<string> {
  const guard = new AddressGuard(allowed, resolve);
  const options = { guard, timeoutMs: 2_000, clock: systemClock };
  return (await post({ url, headers: {}, body: '{}' }, options, new AbortController().signal)).error;
}

/** Accepts connections on loopback and counts them; answers what it is told to. */
async function listen(t: TestContext, answer = 'HTTP/1.1 204 No Content\r\n\r\n') {
  const seen = { connections: 0, url: '', port: 0 };
  const server = createServer((socket) => {
    seen.connections++;
    socket.on('error', () => undefined).once('data', () => socket.end(answer));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => server.close());
  seen.port = (server.address() as AddressInfo).port;
  seen.url = `http://127.0.0.1:${seen.port}`;
  return seen;
}

const FORBIDDEN: [address: string, range: string][] = [
  ['127.0.0.1', 'loopback'],
  ['127.8.9.1', 'loopback'],
  ['0.0.0.0', 'unspecified'],
  ['10.1.2.3', 'private'],
  ['172.16.0.1', 'private'],
  ['192.168.0.1', 'private'],
  ['100.64.0.1', 'carrierGradeNat'],
  ['169.254.169.254', 'linkLocal'],
  ['224.0.0.1', 'multicast'],
  ['255.255.255.255', 'broadcast'],
  ['240.0.0.1', 'reserved'],
  ['::', 'unspecified'],
  ['::1', 'loopback'],
  ['fe80::1', 'linkLocal'],
  ['fc00::1', 'uniqueLocal'],
  ['fd00:ec2::254', 'uniqueLocal'],
  ['ff02::1', 'multicast'],
  ['::ffff:127.0.0.1', 'loopback'],
  ['::ffff:169.254.169.254', 'linkLocal'],
  ['::ffff:a00:1', 'private'],
  ['::7f00:1', 'reserved'],
  ['64:ff9b::7f00:1', 'rfc6052'],
  ['2002:7f00:1::', '6to4'],
  ['2001::1', 'teredo'],
];

test('what is not public is refused, written in the URL or answered by a name', async () => {
  for (const [address, range] of FORBIDDEN) {
    const host = address.includes(':') ? `[${address}]` : address;
    const expected = new RegExp(`^address not allowed \\(${range}\\)`);
    assert.match(await errorOf(`http://${host}:9/`), expected, `literal ${address}`);
    assert.match(await errorOf(`https://${host}:9/`), expected, `literal ${address}`);
    assert.match(await errorOf(NAMED, [], answering(address)), expected, `name of ${address}`);
  }
});

test('other spellings of an IPv4 address do not hide it', async () => {
  for (const host of ['2130706433', '0x7f000001', '0177.0.0.1', '127.1', '127.0.0.1.', '①②⑦.0.0.1'])
    assert.match(await errorOf(`http://${host}:9/`), /^address not allowed \(loopback\)/, host);
});

test('one forbidden answer among several refuses the name, and no answer is an error', async () => {
  assert.match(await errorOf(NAMED, [], answering('203.1.113.7', '10.0.0.1')), /not allowed \(private\)/);
  assert.match(await errorOf(NAMED, [], answering()), /connection failed \(ENOTFOUND\)/);
});

test('what an operator names is reached, and nothing beside it', async (t) => {
  const server = await listen(t);
  const url = `http://name.example:${server.port}/`;
  assert.equal(await errorOf(server.url, ['127.0.0.1']), 'HTTP 204');
  assert.equal(await errorOf(url, ['127.0.0.0/8'], answering('127.0.0.1')), 'HTTP 204');
  assert.equal(await errorOf(`http://[::ffff:127.0.0.1]:${server.port}/`, ['127.0.0.1']), 'HTTP 204');
  assert.equal(server.connections, 3);
  assert.match(await errorOf(server.url, ['127.0.0.2', '::1', '10.0.0.0/8']), /not allowed/);
  assert.match(await errorOf(url, ['::1/128'], answering('127.0.0.1')), /not allowed/);
  assert.equal(server.connections, 3);
});

test('a name that answers otherwise at the next question gains nothing: the checked address is the one connected to', async (t) => {
  const server = await listen(t);
  const url = `http://name.example:${server.port}/`;
  let asked = 0;
  const rebinding: Resolve = async () => [{ address: asked++ % 2 === 0 ? '127.0.0.1' : '169.254.169.254', family: 4 }];
  assert.equal(await errorOf(url, ['127.0.0.1'], rebinding), 'HTTP 204');
  assert.deepEqual([asked, server.connections], [1, 1], 'asked once for one connection');
  assert.match(await errorOf(url, ['127.0.0.1'], rebinding), /not allowed \(linkLocal\)/);
  assert.deepEqual([asked, server.connections], [2, 1]);
});

test('a redirect to a forbidden place is an answer, not a way there', async (t) => {
  const inner = await listen(t);
  for (const status of [301, 302, 303, 307, 308]) {
    const outer = await listen(t, `HTTP/1.1 ${status} Moved\r\nLocation: ${inner.url}/\r\nContent-Length: 0\r\n\r\n`);
    assert.equal(await errorOf(outer.url, ['127.0.0.1']), `HTTP ${status}`);
  }
  assert.equal(inner.connections, 0);
});

test('networks are addresses with or without a length', () => {
  for (const text of ['10.0.0.0/8', '127.0.0.1', 'fd12::/16', '::1']) assert.doesNotThrow(() => networkOf(text));
  for (const text of ['', '10.0.0.0/33', '10/8', 'example.com', '0x7f.1', '127.1', '*'])
    assert.throws(() => networkOf(text), text);
});
