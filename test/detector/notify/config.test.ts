import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ReceiverConfig, ReceiverConfigs, resolveReceiver } from '../../../detector/notify/config.js';
import { PicketError } from '../../../protocol/errors.js';

const URL = 'https://ops.example/hook';
const SECRET = `whsec_${Buffer.alloc(32, 1).toString('base64')}`;
const SECRET_2 = `whsec_${Buffer.alloc(24, 2).toString('base64')}`;
const sources = {
  env: { HOOK: SECRET, TWO: `${SECRET} ${SECRET_2}`, EMPTY: ' ', PLAIN: 'hunter2-hunter2' },
  readFile: (path: string) => {
    const files: Record<string, string> = { two: `${SECRET}\n${SECRET_2}\n`, token: 'Bearer abc\n', lines: 'a\nb' };
    if (path in files) return files[path] as string;
    throw Object.assign(new Error(`no such file ${path}`), { code: 'ENOENT' });
  },
};
const resolve = (facts: object) => resolveReceiver(ReceiverConfig.parse({ name: 'ops', url: URL, ...facts }), sources);

test('defaults', () => {
  assert.deepEqual(resolve({}), {
    name: 'ops',
    url: URL,
    headers: {},
    secrets: [],
    timeoutMs: 10_000,
    maxAttempts: 12,
    minSeverity: 'warning',
    sendResolved: true,
    allowAddresses: [],
  });
});

test('secrets come from files and the environment, several while they rotate', () => {
  const lengths = (facts: object) => resolve(facts).secrets.map(({ length }) => length);
  assert.deepEqual(lengths({ secret_env: 'HOOK' }), [32]);
  assert.deepEqual(lengths({ secret_env: 'TWO' }), [32, 24]);
  assert.deepEqual(lengths({ secret_file: 'two' }), [32, 24]);
  assert.deepEqual(lengths({ secret_file: 'two', secret_env: 'HOOK' }), [32, 24, 32]);
  const headers = { Authorization: { file: 'token' }, 'X-Team': 'gpu' };
  assert.deepEqual(resolve({ headers }).headers, { authorization: 'Bearer abc', 'x-team': 'gpu' });
});

test('a secret that is missing or wrong is told by field, never by value', () => {
  const cases: [object, RegExp][] = [
    [{ secret_env: 'NONE' }, /"receivers\.ops\.secret_env": environment variable NONE is not set/],
    [{ secret_env: 'EMPTY' }, /EMPTY is not set/],
    [{ secret_file: '/none' }, /\/none: field "receivers\.ops\.secret_file": cannot be read \(ENOENT\)/],
    [{ secret_env: 'PLAIN' }, /"receivers\.ops\.secret_env": not a webhook secret.*openssl/],
    [{ secret_file: 'two', secret_env: 'PLAIN' }, /"receivers\.ops\.secret_env": not a webhook secret/],
    [{ headers: { authorization: { file: 'lines' } } }, /"receivers\.ops\.headers\.authorization": not a header value/],
  ];
  for (const [facts, message] of cases)
    assert.throws(
      () => resolve(facts),
      (error) => {
        assert.ok(error instanceof PicketError && error.code === 'bad_config');
        assert.match(error.message, message);
        assert.doesNotMatch(error.message, /hunter2|a\nb/);
        return true;
      },
    );
});

test('what no receiver may have is refused', () => {
  const bad: [object, RegExp][] = [
    [{ url: 'ftp://ops.example' }, /http or https/],
    [{ url: 'file:///etc/passwd' }, /http or https/],
    [{ url: 'ops.example' }, /http or https/],
    [{ url: 'https://user:password@ops.example' }, /must not hold credentials/],
    [{ name: 'a b' }, /letters/],
    [{ headers: { 'webhook-id': 'x' } }, /set by Picket/],
    [{ headers: { Host: 'x' } }, /set by Picket/],
    [{ headers: { Authorization: 'Bearer abc' } }, /not the secret/],
    [{ headers: { 'X-Api-Key': 'abc' } }, /not the secret/],
    [{ secret: SECRET }, /secret/],
    [{ timeout_ms: 0 }, /timeout_ms/],
    [{ allow_addresses: ['10.0.0.0/33'] }, /not an address or network/],
    [{ allow_addresses: ['ops.example'] }, /not an address or network/],
    [{ allow_addresses: ['0x7f.1'] }, /not an address or network/],
  ];
  for (const [facts, message] of bad) {
    const { success, error } = ReceiverConfig.safeParse({ name: 'ops', url: URL, ...facts });
    assert.equal(success, false, JSON.stringify(facts));
    assert.match(error?.message ?? '', message);
  }
  const twice = ReceiverConfigs.safeParse([
    { name: 'ops', url: URL },
    { name: 'ops', url: URL },
  ]);
  assert.deepEqual(twice.error?.issues[0]?.path, [1, 'name']);
});
