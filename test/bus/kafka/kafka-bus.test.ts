import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Kafka, logLevel } from 'kafkajs';
import type { KafkaOptions } from '../../../bus/kafka/kafka-bus.js';
import { openBus } from '../../../bus/open.js';
import { KafkaBroker, needsKafka } from '../../support/kafka-broker.js';
import { Recorder } from '../recorder.js';

function folder(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), 'picket-tls-'));
  t.after(() => rmSync(dir, { recursive: true }));
  return dir;
}

const message = (bytes: number) => ({ key: 'job', value: new Uint8Array(bytes) });

test('a configuration that cannot work is refused before anything connects', async () => {
  const open = (options: Partial<KafkaOptions>) => openBus({ kind: 'kafka', brokers: ['localhost:9092'], ...options });
  await assert.rejects(open({ brokers: [] }), { code: 'bad_config', message: /field "brokers": no brokers/ });
  for (const broker of ['localhost', 'kafka://localhost:9092', 'localhost:', ''])
    await assert.rejects(open({ brokers: [broker] }), {
      code: 'bad_config',
      message: /is no address.*write HOST:PORT/,
    });
  await open({ brokers: ['[::1]:9092', 'kafka-1.example:9092'] });
  await assert.rejects(open({ ssl: { caFile: '/nowhere/ca.pem' } }), {
    code: 'bad_config',
    message: /field "ssl.caFile": .*\/nowhere\/ca.pem/,
  });
  const sasl = { mechanism: 'plain', username: 'picket', passwordFile: '/nowhere/password' } as const;
  await assert.rejects(open({ sasl }), { code: 'bad_config', message: /field "sasl.passwordFile": .*\/nowhere/ });
});

test('a broker that does not answer is named by every use', async () => {
  const bus = await openBus({ kind: 'kafka', brokers: ['127.0.0.1:1'], retries: 1 });
  const expected = { name: 'PicketError', code: 'bus_unavailable', message: /Kafka at 127\.0\.0\.1:1: .*ECONNREFUSED/ };
  await assert.rejects(bus.createTopics([{ topic: 't', partitions: 1 }]), expected);
  await assert.rejects(bus.producer(), expected);
  const consumer = await bus.consumer('g', ['t']);
  await assert.rejects(consumer.start(new Recorder()), expected);
  assert.equal(consumer.health().failed?.name, 'PicketError');
  await bus.close();
});

test('a topic with a lower limit than ours gets what fits it and names what does not', needsKafka, async (t) => {
  const broker = await KafkaBroker.start();
  t.after(() => broker.dispose());
  const admin = new Kafka({ brokers: broker.brokers, logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  await admin.createTopics({
    topics: [{ topic: 'narrow', configEntries: [{ name: 'max.message.bytes', value: '10000' }] }],
    waitForLeaders: true,
  });
  await admin.disconnect();
  const bus = await openBus({ kind: 'kafka', brokers: broker.brokers });
  t.after(() => bus.close());
  const producer = await bus.producer();
  await producer.send(
    'narrow',
    Array.from({ length: 9 }, (_, i) => message(4000 + i)),
  );
  await assert.rejects(producer.send('narrow', [message(50), message(20_000)]), {
    code: 'too_large',
    message: /20\d\d\d bytes for topic narrow, key "job": over the topic's own max.message.bytes on 127/,
  });
  const recorder = new Recorder();
  const consumer = await bus.consumer('g', ['narrow']);
  await consumer.start(recorder);
  await recorder.until((r) => r.records_.length === 10, 'what fits');
  const sizes = recorder.records_.map(({ record }) => record.value.byteLength);
  assert.deepEqual(sizes, [...Array.from({ length: 9 }, (_, i) => 4000 + i), 50]);
});

test(
  'TLS and a password from a file are as the broker asks, and a wrong password is refused',
  needsKafka,
  async (t) => {
    const dir = folder(t);
    const broker = await secureBroker(dir);
    t.after(() => broker.dispose());
    const passwordFile = join(dir, 'password');
    writeFileSync(passwordFile, 'secret\n');
    const options = {
      kind: 'kafka',
      brokers: broker.brokers,
      retries: 2,
      ssl: { caFile: join(dir, 'ca.pem') },
      sasl: { mechanism: 'plain', username: 'picket', passwordFile },
    } as const;
    const bus = await openBus(options);
    t.after(() => bus.close());
    await bus.createTopics([{ topic: 't', partitions: 1 }]);
    await (await bus.producer()).send('t', [message(3)]);
    const recorder = new Recorder();
    const consumer = await bus.consumer('g', ['t']);
    await consumer.start(recorder);
    await recorder.until((r) => r.records_.length === 1, 'the record');
    writeFileSync(passwordFile, 'wrong');
    const intruder = await openBus(options);
    await assert.rejects(intruder.producer(), { code: 'bus_unavailable', message: /SASL PLAIN authentication failed/ });
    await assert.rejects((await openBus({ ...options, ssl: true })).producer(), { message: /self.signed certificate/ });
  },
);

async function secureBroker(dir: string): Promise<KafkaBroker> {
  const keystore = join(dir, 'broker.p12');
  const store = ['-keystore', keystore, '-storetype', 'PKCS12', '-storepass', 'changeit', '-alias', 'broker'];
  const names = ['-dname', 'CN=localhost', '-ext', 'san=ip:127.0.0.1,dns:localhost'];
  execFileSync('keytool', ['-genkeypair', '-keyalg', 'RSA', '-validity', '2', ...names, ...store], { stdio: 'pipe' });
  execFileSync('keytool', ['-exportcert', '-rfc', '-file', join(dir, 'ca.pem'), ...store], { stdio: 'pipe' });
  const login = 'org.apache.kafka.common.security.plain.PlainLoginModule required';
  return KafkaBroker.start({
    properties: {
      'listener.security.protocol.map': 'CLIENTS:SASL_SSL,CONTROLLER:PLAINTEXT',
      'ssl.keystore.location': keystore,
      'ssl.keystore.password': 'changeit',
      'ssl.truststore.location': keystore,
      'ssl.truststore.password': 'changeit',
      'sasl.enabled.mechanisms': 'PLAIN',
      'sasl.mechanism.inter.broker.protocol': 'PLAIN',
      'listener.name.clients.plain.sasl.jaas.config': `${login} username="admin" password="a" user_admin="a" user_picket="secret";`,
    },
    client: {
      ssl: { ca: readFileSync(join(dir, 'ca.pem'), 'utf8') },
      sasl: { mechanism: 'plain', username: 'admin', password: 'a' },
    },
  });
}
