import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { parseDetectorConfig } from '../../detector/config.js';
import { DetectorProcess } from '../support/detector-process.js';
import { freePort, KafkaBroker, needsKafka } from '../support/kafka-broker.js';

interface Service {
  image: string;
  command: string[];
  environment: Record<string, string>;
  volumes: string[];
}

const { services } = parse(readFileSync('docker-compose.yml', 'utf8')) as { services: Record<string, Service> };
const service = (name: string): Service => services[name] as Service;
const PROGRAM = resolve(import.meta.dirname, '../../cli/main.js');

/** The broker's settings, as its image makes them from the environment: KAFKA_NODE_ID is node.id. */
async function brokerProperties(port: number): Promise<Record<string, string>> {
  const ports: Record<string, number> = { 9092: port, 9093: await freePort(), 29092: await freePort() };
  const entries = Object.entries(service('kafka').environment)
    .filter(([name]) => name.startsWith('KAFKA_') && name !== 'KAFKA_LOG_DIRS')
    .map(([name, value]) => [name.slice(6).toLowerCase().replaceAll('_', '.'), here(value, ports)]);
  return Object.fromEntries(entries);
}

/** An address of a container as it is on this machine. */
const here = (value: string, ports: Record<string, number>): string =>
  value
    .replace(/:\/\/(kafka|localhost)?:/g, '://127.0.0.1:')
    .replace(/@kafka:/, '@127.0.0.1:')
    .replace(/:(\d{4,5})\b/g, (_, port: string) => `:${ports[port]}`);

test('the broker of docker-compose.yml is the one that the tests run against', () => {
  const version = /<artifactId>kafka_2\.13<\/artifactId>\s*<version>([^<]+)</.exec(
    readFileSync('scripts/kafka/pom.xml', 'utf8'),
  )?.[1];
  assert.equal(service('kafka').image, `apache/kafka:${version}`);
});

test("the example of a detector's configuration is right, its comments too", () => {
  const file = 'deploy/detector.yaml';
  const text = readFileSync(file, 'utf8');
  assert.ok(service('detector').volumes.includes(`./${file}:/etc/picket/detector.yaml:ro`));
  assert.deepEqual(parseDetectorConfig(text, file), parseDetectorConfig(required(text), file), 'defaults are as shown');
  const all = parse(text) as { bus: object };
  const option = (name: string): object =>
    parse(
      text
        .match(new RegExp(`# ${name}: .*`, 'g'))
        ?.at(-1)
        ?.slice(2) ?? '',
    );
  const receivers = parse(text.slice(text.indexOf('# receivers:')).replace(/^# /gm, ''));
  const secured = {
    ...all,
    ...receivers,
    bus: { ...all.bus, ...option('ssl'), ...option('sasl'), ...option('replication_factor') },
  };
  assert.equal(parseDetectorConfig(JSON.stringify(secured), file).receivers[0]?.name, 'on-call');
  assert.equal(parseDetectorConfig(JSON.stringify({ ...all, ...option('bus') }), file).bus.kind, 'embedded');
});

/** The example with only what has no default. */
function required(text: string): string {
  const { http, bus, store } = parse(text);
  return JSON.stringify({ http: { external_url: http.external_url }, bus, store: { path: store.path } });
}

test(
  'the programs of docker-compose.yml, started without Docker, find the fault in the replay',
  needsKafka,
  async (t) => {
    const port = await freePort();
    const broker = await KafkaBroker.start({ port, properties: await brokerProperties(port) });
    t.after(() => broker.dispose());
    const { http: _, store, bus, receivers: __, ...extra } = parse(readFileSync('deploy/detector.yaml', 'utf8'));
    assert.deepEqual(bus.brokers, ['kafka:9092']);
    assert.ok(service('detector').volumes.includes(`detector-data:${store.path.replace(/\/[^/]*$/, '')}`));
    const detector = new DetectorProcess({ ...bus, brokers: broker.brokers }, [], extra);
    t.after(() => detector.close());
    assert.ok(await detector.start(), detector.output);
    const command = service('replay').command.map((word) =>
      word === 'kafka:9092' ? (broker.brokers[0] as string) : word === '1' ? 'max' : word,
    );
    const [exit] = await once(spawn(process.execPath, [PROGRAM, ...command], { stdio: 'inherit' }), 'exit');
    assert.equal(exit, 0);
    const [incident] = await detector.incidentsUntil((incidents) => incidents.some(({ kind }) => kind === 'straggler'));
    assert.deepEqual([incident?.subject.job, incident?.subject.ranks], ['host_straggler', [0]]);
  },
);
