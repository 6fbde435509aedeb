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
  const { credentials, ...receiver } = resolve({});
  assert.deepEqual(credentials(), { url: URL, headers: {}, secrets: [], routingKey: undefined });
  assert.deepEqual(receiver, {
    name: 'ops',
    format: 'webhook',
    timeoutMs: 10_000,
    maxAttempts: 12,
    resendMs: 0,
    minSeverity: 'warning',
    sendResolved: true,
    allowAddresses: [],
  });
});

test('secrets come from files and the environment, several while they rotate', () => {
  const lengths = (facts: object) =>
    resolve(facts)
      .credentials()
      .secrets.map(({ length }) => length);
  assert.deepEqual(lengths({ secret_env: 'HOOK' }), [32]);
  assert.deepEqual(lengths({ secret_env: 'TWO' }), [32, 24]);
  assert.deepEqual(lengths({ secret_file: 'two' }), [32, 24]);
  assert.deepEqual(lengths({ secret_file: 'two', secret_env: 'HOOK' }), [32, 24, 32]);
  const headers = { Authorization: { file: 'token' }, 'X-Team': 'gpu' };
  assert.deepEqual(resolve({ headers }).credentials().headers, { authorization: 'Bearer abc', 'x-team': 'gpu' });
});

test('a file that is replaced counts at once', () => {
  let key = 'one';
  const config = ReceiverConfig.parse({ name: 'pd', format: 'pagerduty', routing_key_file: 'key' });
  const receiver = resolveReceiver(config, { env: {}, readFile: () => key });
  assert.equal(receiver.credentials().routingKey, 'one');
  key = 'two\n';
  assert.equal(receiver.credentials().routingKey, 'two');
  assert.equal(receiver.credentials().url, 'https://events.pagerduty.com/v2/enqueue');
});

test('a URL that is a secret stands in a file or in the environment', () => {
  const hook = 'https://hooks.slack.com/services/T0/B0/hunter2';
  const readFile = (path: string) => (path === 'url' ? `${hook}\n` : 'hunter2 is no URL');
  const of = (facts: object) =>
    resolveReceiver(ReceiverConfig.parse({ name: 'chat', format: 'slack', ...facts }), {
      env: { HOOK: hook },
      readFile,
    });
  assert.equal(of({ url_file: 'url' }).credentials().url, hook);
  assert.equal(of({ url_env: 'HOOK' }).credentials().url, hook);
  assert.throws(
    () => of({ url_file: 'other' }),
    (error: Error) => {
      assert.match(error.message, /receivers\.chat\.url_file": not an http or https URL/);
      return !/hunter2/.test(error.message);
    },
  );
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
    [{ url: undefined }, /give one of url, url_file, url_env/],
    [{ url_file: 'x' }, /give one of url, url_file, url_env/],
    [{ format: 'email' }, /format/],
    [{ format: 'slack' }, /url/],
    [{ format: 'slack', url: undefined }, /give one of url_file, url_env/],
    [{ format: 'pagerduty' }, /give one of routing_key_file, routing_key_env/],
    [{ format: 'pagerduty', routing_key: 'abc' }, /routing_key/],
    [{ format: 'alertmanager', secret_env: 'X' }, /secret_env/],
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
