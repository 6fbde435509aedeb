import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { parse } from 'yaml';
import { parseDetectorConfig } from '../../detector/config.js';
import { PicketError } from '../../protocol/errors.js';
import { setUpServer } from '../detector/http/support.js';
import { commitTo, newIncident, newNotification, temporaryFolder } from '../detector/store/support.js';
import { freePort } from '../support/kafka-broker.js';

const GUIDE = readFileSync('docs/alerts.md', 'utf8');
const PROGRAM = resolve(import.meta.dirname, '../../cli/main.js');

const blocks = (kind: string): string[] =>
  [...GUIDE.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].flatMap(([, name, body]) =>
    name === kind ? [body as string] : [],
  );

/** Runs shell commands, `npx picket` being this build. */
async function sh(t: TestContext, command: string, url: string): Promise<{ status: number | null; out: string }> {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'npx'), `#!/bin/sh\nshift\nexec "${process.execPath}" "${PROGRAM}" "$@"\n`);
  chmodSync(join(folder, 'npx'), 0o755);
  const env = { ...process.env, PATH: `${folder}:${process.env.PATH}`, PICKET_URL: url };
  const child = spawn('sh', ['-e', '-c', command], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = new Promise<number | null>((done) => child.once('exit', done));
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { status: await ended, out: out + err };
}

test('docs/alerts.md: the configuration is right, and shows every field and its default', () => {
  const [example = '', secured = ''] = blocks('yaml');
  const { bus, store } = { bus: { kind: 'embedded', dir: 'log' }, store: { path: 'db' } };
  const config = parseDetectorConfig(JSON.stringify({ bus, store, ...parse(example) }), 'docs/alerts.md');
  assert.deepEqual(
    config.receivers.map(({ format }) => format),
    ['webhook', 'alertmanager', 'pagerduty', 'slack'],
  );
  assert.deepEqual(
    config.routes.map(({ receiver }) => receiver),
    ['alertmanager', 'pager', 'chat'],
  );
  const { http } = parseDetectorConfig(JSON.stringify({ bus, store, ...parse(secured) }), 'docs/alerts.md');
  assert.equal(http.api_token_file, '/etc/picket/api-token');
  const shown = [...config.receivers, ...config.routes].flatMap((each) => Object.keys(each));
  const documented = [...GUIDE.matchAll(/^\| (`.*?) \|/gm)].flatMap(
    ([, names]) => (names as string).match(/\w+/g) ?? [],
  );
  assert.deepEqual(
    [...new Set(shown)].filter((name) => !documented.includes(name)),
    [],
  );
  for (const [name, value] of [
    ['timeout_ms', '10000'],
    ['max_attempts', '12'],
    ['resend_seconds', '60'],
    ['min_severity', 'warning'],
    ['repeat_interval', '4h'],
  ])
    assert.match(GUIDE, new RegExp(`^\\| \`${name}\` \\| \`${value}\` \\|`, 'm'));
});

test('a route to a receiver that is not there is one clear error', () => {
  const text = 'bus: {kind: embedded, dir: log}\nstore: {path: db}\nroutes:\n  - receiver: nobody\n';
  assert.throws(
    () => parseDetectorConfig(text, 'd.yaml'),
    /d\.yaml:4: field "routes\.0\.receiver": there is no receiver "nobody"/,
  );
});

test('docs/alerts.md: the commands work as they are pasted', async (t) => {
  const { app, store } = setUpServer(t);
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  commitTo(store, { incidents: [newIncident('a')], notifications: [newNotification('n-a', newIncident('a'))] });
  const plan = { held: [], superseded: [], dueMs: undefined };
  const messages = [{ id: 'n-a', changes: [1], also: [], truncated: 0 }];
  store.groups.flush('ops', new Map([['{}:{incident_id="a"}', { ...plan, messages }]]));
  store.outbox.recordAttempt('n-a', { state: 'dead', error: 'HTTP 400', arrived: false }, []);
  const [redrive = '', incidents = '', silences = ''] = blocks('sh');
  const first = await sh(t, redrive, url);
  assert.equal(first.status, 0, first.out);
  assert.match(first.out, /^ID +RECEIVER .*\nn-a +ops +dead .* a +HTTP 400\n1 to be told again\n$/);
  const second = await sh(t, silences, url);
  assert.equal(second.status, 0, second.out);
  assert.match(second.out, /active +\S+ +eve +job=pretrain-\*,host=gpu-017 +burn-in of a new GPU/);
  assert.deepEqual(
    store.silences.list(5).map(({ endsMs }) => endsMs),
    [10_000_000],
    'it is over now',
  );

  commitTo(store, { incidents: [newIncident('b', { severity: 'critical' })] });
  const third = await sh(t, incidents, url);
  assert.equal(third.status, 0, third.out);
  assert.match(
    third.out,
    /^ID .*SUMMARY\nb +critical +open +straggler +llama +2026-03-01T10:00:00Z +rank 3 .*\nCRITICAL +straggler in llama.* {2}rule +\w+\n.* opened at step.*\nb acknowledged\n$/s,
  );
  assert.deepEqual(store.incident('b')?.timeline.at(-1)?.note.replace(/.*: /, ''), 'GPU is being replaced');

  const [json = ''] = blocks('json');
  const made = await app.inject({
    method: 'POST',
    url: '/v1/silences',
    payload: json,
    headers: { 'content-type': 'application/json' },
  });
  assert.equal(made.statusCode, 201, made.body);
});

test('what the detector objects to is told, and one that is not there too', async (t) => {
  const { app } = setUpServer(t);
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  const nobody = `http://127.0.0.1:${await freePort()}`;
  const other = createServer((_request, response) => response.end('<html>')).listen(0, '127.0.0.1');
  t.after(() => other.close());
  await once(other, 'listening');
  const elsewhere = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
  const fail = () => {
    throw new PicketError('store_unavailable', 'disk full');
  };
  const broken = setUpServer(t, {
    incidents: { acknowledge: fail, incident: fail, listIncidents: fail, job: fail, jobNames: fail },
  });
  const failing = await broken.app.listen({ host: '127.0.0.1', port: 0 });
  const cases: [string, string, RegExp][] = [
    ['incidents list', failing, /^picket: Service Unavailable; the log of the detector says why$/m],
    ['incidents list --part-of ""', url, /^picket: --part-of: is empty/],
    ['silences add --match job=* --for 2h --reason x', url, /^picket: --match: silences everything/],
    ['silences add --match job --for 2h --reason x', url, /--match": "job" is not label=glob/],
    ['silences add --match job=a --for soon --reason x', url, /^picket: --for: is not a duration/],
    ['silences add --match job=a --reason x', url, /give either --for or --until; such as --for 2h/],
    [
      'silences add --match job=a --until 1960-01-01T00:00:00Z --reason x',
      url,
      /^picket: --until: ends before it starts/,
    ],
    [
      'silences add --match hots=a --for 2h --reason x',
      url,
      /^picket: --match hots: no incident has.*did you mean "host"/,
    ],
    [
      'silences list --status over',
      url,
      /^picket: --status: is none of the values there are; use one of pending, active/,
    ],
    ['silences expire none', url, /there is no silence "none"/],
    ['incidents show none', url, /there is no incident "none"/],
    ['incidents ack none', url, /there is no incident "none"/],
    [
      'incidents list --kind slow --severity warn',
      url,
      /^picket: --kind: is none of.*; --severity: is none of the values there are; did you mean "warning"\?/,
    ],
    ['incidents list --job nobody', url, /no data of job "nobody" has ever come/],
    ['incidents list', nobody, /no detector answers at/],
    ['incidents list', elsewhere, /field "--url": what answers at http.* is no detector \(HTTP 200\)/],
    [
      'notifications redrive --receiver chat',
      url,
      /^picket: --receiver: there is no receiver "chat"; configured are ops, pager/,
    ],
    ['notifications redrive', url, /give either ids, or --receiver or --all/],
    ['notifications list --state lost', url, /--state: /],
    ['silences list', nobody, /no detector answers at http:\/\/127\.0\.0\.1:\d+ \(ECONNREFUSED\).*give the address/],
  ];
  for (const [command, where, message] of cases) {
    const { status, out } = await sh(t, `npx picket ${command}`, where);
    assert.equal(status, 2, `${command}: ${out}`);
    assert.match(out, message);
  }
});

test('docs/alerts.md: with a token the commands bring it, from a file that an option or the environment names', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'api-token');
  const { app, store } = setUpServer(t, { apiTokens: () => readFileSync(file, 'utf8').split(/\s+/) });
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  const [, , , secured = ''] = blocks('sh');
  const done = await sh(t, `cd ${folder}\n${secured}`, url);
  assert.equal(done.status, 0, done.out);
  assert.match(readFileSync(file, 'utf8'), /^[0-9a-f]{64}\n$/);
  const [{ id = '' } = {}] = store.silences.list(5);
  const cases: [string, number, RegExp][] = [
    [`silences expire ${id}`, 2, /needs a token.*name the file that holds it with --token-file or \$PICKET_TOKEN_FILE/],
    [`silences expire ${id} --token-file ${PROGRAM}`, 2, /the token is not the right one|holds no token/],
    [
      `silences expire ${id} --token-file ${folder}/none`,
      2,
      /none: cannot be read \(ENOENT\); give an existing file to --token-file/,
    ],
    ['silences list', 0, /active/],
  ];
  for (const [command, status, message] of cases) {
    const { out, ...ended } = await sh(t, `npx picket ${command}`, url);
    assert.equal(ended.status, status, out);
    assert.match(out, message);
  }
  const expired = await sh(t, `PICKET_TOKEN_FILE=${file} npx picket silences expire ${id}`, url);
  assert.deepEqual(expired, { status: 0, out: '' });
});

test('incidents are chosen by what they are part of, and printed as the API shows them', async (t) => {
  const { app, store } = setUpServer(t);
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  const storm = newIncident('s', { storm: { common: 'host', members: ['a'] } });
  commitTo(store, { incidents: [newIncident('a', { part_of: 's' }), storm, newIncident('b')] });
  commitTo(store, { jobs: [{ job: 'stopped', run: '1', lastDataMs: 0 }] });
  const silent = await sh(t, 'npx picket incidents list --job stopped', url);
  assert.match(silent.out, /^ID .*SUMMARY\npicket: a job that is asked for sends nothing any more/);
  const { status, out } = await sh(t, 'npx picket incidents list --part-of s --json', url);
  assert.equal(status, 0, out);
  assert.deepEqual(JSON.parse(out), (await app.inject('/v1/incidents?part_of=s')).json().items);
  assert.deepEqual(
    JSON.parse(out).map(({ id }: { id: string }) => id),
    ['a'],
  );
});
