import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { openBus } from '../../bus/open.js';
import { publish } from '../../cli/publish.js';
import { importPaths } from '../../importers/index.js';
import { TOPICS } from '../../protocol/topics.js';
import { DetectorProcess } from '../support/detector-process.js';
import { startHook } from './notify/support.js';

const EXCERPT = resolve('fixtures/h200-tp2-excerpt');

test('secrets go to their receivers and nowhere else: not into logs, API, metrics, incidents or the store', {
  timeout: 120_000,
}, async (t) => {
  const hooks = [await startHook(t, () => ({ status: 200 })), await startHook(t, () => ({ status: 500 }))] as const;
  const secrets = {
    token: 'Bearer hunter2-token',
    signing: `whsec_${Buffer.alloc(32, 7).toString('base64')}`,
    key: 'hunter2-routing-key',
    slack: `${hooks[0].url}/hunter2-slack`,
    failing: `${hooks[1].url}/hunter2-failing`,
    unreachable: 'http://192.168.77.1/hunter2-unreachable',
  };
  const allow_addresses = ['127.0.0.1'];
  const receivers = [
    {
      name: 'hook',
      url: hooks[0].url,
      secret_env: 'SIGNING',
      headers: { authorization: { env: 'TOKEN' } },
      allow_addresses,
    },
    { name: 'pager', format: 'pagerduty', url: hooks[0].url, routing_key_file: 'key', allow_addresses },
    { name: 'chat', format: 'slack', url_env: 'SLACK', allow_addresses },
    { name: 'failing', url_env: 'FAILING', allow_addresses },
    { name: 'unreachable', url_env: 'UNREACHABLE' },
  ].map((each) => ({ ...each, min_severity: 'info' }));
  const detector = new DetectorProcess({ kind: 'embedded', dir: '', fsync: 'never' }, [], { log_level: 'debug' });
  t.after(() => detector.close());
  writeFileSync(join(detector.folder, 'key'), secrets.key);
  const keyFile = join(detector.folder, 'key');
  detector.configure({
    receivers: receivers.map((each) => ('routing_key_file' in each ? { ...each, routing_key_file: keyFile } : each)),
  });

  const bus = await openBus({ kind: 'embedded', dir: detector.logDir, fsync: 'never' });
  await bus.createTopics([{ topic: TOPICS.phases, partitions: 2 }]);
  await publish(await bus.producer(), importPaths([EXCERPT]), undefined);
  await bus.close();
  const { token: TOKEN, signing: SIGNING, slack: SLACK, failing: FAILING, unreachable: UNREACHABLE } = secrets;
  assert.ok(await detector.start({ TOKEN, SIGNING, SLACK, FAILING, UNREACHABLE }), detector.output);
  await detector.incidentsUntil((incidents) => incidents.length > 0);
  const ask = async (path: string) => (await fetch(new URL(path, detector.url))).text();
  const outcomes = async () => {
    const metrics = await ask('/metrics');
    return (
      /receiver="chat",outcome="delivered"} [1-9]/.test(metrics) &&
      /receiver="unreachable",outcome="failed"} [1-9]/.test(metrics)
    );
  };
  while (!(await outcomes())) await new Promise((resolve) => setTimeout(resolve, 50));

  const sent = hooks.flatMap(({ requests }) =>
    requests.map(({ path, headers, body }) => `${path} ${headers.authorization} ${body}`),
  );
  for (const seen of ['hunter2-token', 'hunter2-routing-key', 'hunter2-slack', 'hunter2-failing'])
    assert.ok(
      sent.some((request) => request.includes(seen)),
      `${seen} was not used`,
    );
  const [incident] = await detector.incidents();
  const paths = [
    '/v1/incidents',
    `/v1/incidents/${incident?.id}`,
    '/v1/notifications',
    '/v1/status/rules',
    '/readyz',
    '/metrics',
  ];
  const shown = await Promise.all(paths.map(ask));
  await detector.kill('SIGTERM');
  const stored = readdirSync(detector.folder)
    .filter((name) => /^store/.test(name))
    .map((name) => readFileSync(join(detector.folder, name), 'latin1'));
  assert.ok(stored.length > 0 && /notification/.test(detector.output));
  for (const text of [...shown, ...stored, detector.output])
    assert.doesNotMatch(text, new RegExp(`hunter2|${secrets.signing.slice(6, 20)}|192\\.168\\.77`));
});
