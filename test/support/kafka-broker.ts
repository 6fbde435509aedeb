import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Kafka, type KafkaConfig, logLevel } from 'kafkajs';

const LIBS = resolve(process.cwd(), '.cache/kafka/libs');
const READY_DEADLINE_MS = 90_000;
const STOP_DEADLINE_MS = 30_000;
const HAVE_JARS = existsSync(LIBS) && readdirSync(LIBS).some((name) => name.startsWith('kafka_'));

/** Give it to node:test. With CI=true the tests run, and so fail, where the broker cannot be had. */
export const needsKafka = {
  skip: HAVE_JARS || process.env.CI === 'true' ? false : 'needs Kafka: run `node scripts/setup.mjs test`',
} as const;

export interface KafkaBrokerOptions {
  /** Port for clients; by default a free one. */
  readonly port?: number;
  /** Broker settings, over those of `serverProperties`. */
  readonly properties?: Readonly<Record<string, string>>;
  /** How the ready check connects, where the listener asks for TLS or a password. */
  readonly client?: Pick<KafkaConfig, 'ssl' | 'sasl'>;
}

/** A real Apache Kafka broker (KRaft, one node, loopback) with a data folder of its own. It dies with this process. */
export class KafkaBroker {
  readonly port: number;
  readonly brokers: string[];
  readonly dir: string;
  readonly #options: KafkaBrokerOptions;
  #running: Supervised | undefined;

  private constructor(port: number, options: KafkaBrokerOptions) {
    this.dir = mkdtempSync(join(tmpdir(), 'picket-kafka-'));
    this.port = port;
    this.brokers = [`127.0.0.1:${port}`];
    this.#options = options;
  }

  /** Formats the storage, starts the broker and waits until it answers. Throws with the end of its log where it dies. */
  static async start(options: KafkaBrokerOptions = {}): Promise<KafkaBroker> {
    if (!HAVE_JARS) throw new Error(`no Kafka in ${LIBS}; run \`node scripts/setup.mjs test\``);
    const broker = new KafkaBroker(options.port ?? (await freePort()), options);
    try {
      await broker.#format(await freePort());
      await broker.up();
    } catch (error) {
      await broker.dispose();
      throw error;
    }
    return broker;
  }

  /** Starts the stopped broker again: same port, same data. */
  async up(): Promise<void> {
    if (this.#running) throw new Error('the broker is already up');
    const log = openSync(join(this.dir, 'broker.log'), 'a');
    this.#running = await supervise(java(this.dir, 'kafka.Kafka', join(this.dir, 'server.properties')), log);
    closeSync(log);
    await this.#ready(this.#running);
  }

  /** Stops the broker in an orderly way. */
  async stop(): Promise<void> {
    await this.#end('SIGTERM');
  }

  /** Stops it as a power cut would. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  async restart(): Promise<void> {
    await this.stop();
    await this.up();
  }

  /** Kills the broker and removes its data. */
  async dispose(): Promise<void> {
    await this.kill();
    rmSync(this.dir, { recursive: true, force: true });
  }

  async #format(controllerPort: number): Promise<void> {
    const properties = { ...serverProperties(this.dir, this.port, controllerPort), ...this.#options.properties };
    const file = join(this.dir, 'server.properties');
    const lines = Object.entries(properties).map(([name, value]) => `${name}=${value}\n`);
    writeFileSync(file, lines.join(''));
    const clusterId = Buffer.from('picket-test-kfk!').toString('base64url');
    const quorum = 'controller.quorum.voters' in properties ? [] : ['--standalone'];
    const tool = ['kafka.tools.StorageTool', 'format', ...quorum, '--cluster-id', clusterId, '--config', file];
    const [program, ...args] = java(this.dir, ...tool);
    await promisify(execFile)(program, args);
  }

  async #ready(running: Supervised): Promise<void> {
    const exit = running.exited.then(() => 'exit' as const);
    const kafka = new Kafka({ brokers: this.brokers, logLevel: logLevel.NOTHING, ...this.#options.client });
    const deadline = performance.now() + READY_DEADLINE_MS;
    while (performance.now() < deadline) {
      const outcome = await Promise.race([exit, answers(kafka)]);
      if (outcome === true) return;
      if (outcome === 'exit') throw new Error(`the Kafka broker has ended:\n${this.#logTail()}`);
      await sleep(100);
    }
    throw new Error(`the Kafka broker did not answer in ${READY_DEADLINE_MS} ms:\n${this.#logTail()}`);
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const running = this.#running;
    if (!running) return;
    this.#running = undefined;
    process.kill(running.pid, signal);
    const late = setTimeout(() => process.kill(running.pid, 'SIGKILL'), STOP_DEADLINE_MS);
    await running.exited;
    clearTimeout(late);
  }

  #logTail(): string {
    return readFileSync(join(this.dir, 'broker.log'), 'utf8').slice(-4000);
  }
}

interface Supervised {
  readonly pid: number;
  readonly exited: Promise<unknown>;
}

/**
 * Runs a program under a shell that kills it when our end of the pipe closes, however this process dies. Descriptor 3 is
 * the log; the shell writes the program's pid to its standard output.
 */
const SUPERVISOR = `
exec 4<&0
"$@" </dev/null >&3 2>&3 4<&- &
pid=$!
(exec >&- 2>&-; cat <&4 >/dev/null; kill -9 $pid) &
watcher=$!
echo $pid
wait $pid
kill $watcher`;

async function supervise(command: readonly string[], log: number): Promise<Supervised> {
  const shell: ChildProcess = spawn('sh', ['-c', SUPERVISOR, 'supervisor', ...command], {
    stdio: ['pipe', 'pipe', 'ignore', log],
  });
  const exited = once(shell, 'exit').then(() => shell.stdin?.destroy());
  if (!shell.stdout) throw new Error('the supervisor has no output');
  const [pid] = await once(createInterface(shell.stdout), 'line');
  return { pid: Number(pid), exited };
}

function java(dir: string, ...main: readonly string[]): [string, ...string[]] {
  // Quick to start and small: a few partitions on one shared core need no optimising compiler and no parallel collector.
  const small = ['-Xms128m', '-Xmx512m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-XX:-UsePerfData'];
  return ['java', ...small, '-Dlog4j2.level=WARN', `-Dkafka.logs.dir=${dir}`, '-cp', join(LIBS, '*'), ...main];
}

function serverProperties(dir: string, port: number, controllerPort: number): Record<string, string> {
  const listeners = `CLIENTS://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controllerPort}`;
  return {
    'process.roles': 'broker,controller',
    'node.id': '1',
    'controller.quorum.bootstrap.servers': `127.0.0.1:${controllerPort}`,
    'controller.listener.names': 'CONTROLLER',
    'listener.security.protocol.map': 'CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT',
    'inter.broker.listener.name': 'CLIENTS',
    listeners,
    'advertised.listeners': listeners,
    'log.dirs': join(dir, 'data'),
    'auto.create.topics.enable': 'false',
    'offsets.topic.num.partitions': '1',
    'offsets.topic.replication.factor': '1',
    'transaction.state.log.replication.factor': '1',
    'transaction.state.log.min.isr': '1',
    'share.coordinator.state.topic.replication.factor': '1',
    'share.coordinator.state.topic.min.isr': '1',
    'group.initial.rebalance.delay.ms': '0',
    // After a hard stop the node may only come back once its old session has ended.
    'broker.session.timeout.ms': '2000',
    'broker.heartbeat.interval.ms': '500',
    'log.retention.check.interval.ms': '1000',
    'log.initial.task.delay.ms': '1000',
  };
}

async function answers(kafka: Kafka): Promise<boolean> {
  const admin = kafka.admin({ retry: { retries: 0 } });
  try {
    await admin.connect();
    return (await admin.describeCluster()).brokers.length > 0;
  } catch {
    return false;
  } finally {
    await admin.disconnect();
  }
}

/** A port below the range that outgoing connections draw from, so that it is still free at a restart. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    const server = createServer();
    const bound = await new Promise<boolean>((done) => {
      server.once('error', () => done(false));
      server.listen(port, '127.0.0.1', () => done(true));
    });
    if (!bound) continue;
    await new Promise((done) => server.close(done));
    return port;
  }
}
