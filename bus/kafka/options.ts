import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import { type KafkaConfig, type LogEntry, logLevel, type SASLOptions } from 'kafkajs';
import { PicketError } from '../../protocol/errors.js';
import type { BusLog } from '../log.js';

export interface KafkaOptions {
  /** HOST:PORT each; any of them leads to the others. */
  readonly brokers: readonly string[];
  readonly clientId?: string;
  /** TLS: true trusts the system's authorities; the files are PEM. */
  readonly ssl?: boolean | { readonly caFile?: string; readonly certFile?: string; readonly keyFile?: string };
  readonly sasl?: {
    readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512';
    readonly username: string;
    /** The password is its content without the line end. */
    readonly passwordFile: string;
  };
  /** Copies of each partition of a topic made here; without it the broker's default. */
  readonly replicationFactor?: number;
  /** How often a failed request is sent again, at growing intervals of at most 3 s, before it counts as failed. */
  readonly retries?: number;
  /** A consumer not heard of for so long is taken for dead. */
  readonly sessionTimeoutMs?: number;
  /** How long the group waits for a consumer to finish what it does when the partitions are dealt anew. */
  readonly rebalanceTimeoutMs?: number;
  readonly heartbeatIntervalMs?: number;
  readonly log?: BusLog;
}

/** The client's own configuration. Throws `bad_config` for brokers that are none and files that cannot be read. */
export function clientConfig(options: KafkaOptions, log: BusLog, onOffsetReset: OffsetReset): KafkaConfig {
  for (const broker of options.brokers) {
    if (/^(\[[^\]]+\]|[^:\s]+):\d{1,5}$/.test(broker)) continue;
    throw new PicketError('bad_config', `"${broker}" is no address of a broker`, {
      field: 'brokers',
      remedy: 'write HOST:PORT',
    });
  }
  if (options.brokers.length === 0)
    throw new PicketError('bad_config', 'no brokers', { field: 'brokers', remedy: 'name at least one HOST:PORT' });
  return {
    clientId: options.clientId ?? 'picket',
    brokers: [...options.brokers],
    retry: { initialRetryTime: 100, maxRetryTime: 3000, retries: options.retries ?? 10 },
    logLevel: logLevel.WARN,
    logCreator: () => (entry) => forward(entry, log, onOffsetReset),
    ...(options.ssl === undefined ? {} : { ssl: tlsOf(options.ssl) }),
    ...(options.sasl === undefined ? {} : { sasl: saslOf(options.sasl) }),
  };
}

export type OffsetReset = (topic: string, partition: number) => void;

/** The client tells of a reset in its log only, and of no other place. */
const RESET_MESSAGE = 'Offset out of range, resetting to default offset';

function forward({ level, log: entry }: LogEntry, log: BusLog, onOffsetReset: OffsetReset): void {
  if (entry.message === RESET_MESSAGE) onOffsetReset(String(entry.topic), Number(entry.partition));
  const broker = entry.broker === undefined ? '' : ` (broker ${String(entry.broker)})`;
  const error = entry.error === undefined ? '' : `: ${String(entry.error)}`;
  log(level === logLevel.ERROR ? 'error' : 'warn', `Kafka${broker}: ${entry.message}${error}`);
}

function tlsOf(ssl: NonNullable<KafkaOptions['ssl']>): ConnectionOptions | boolean {
  if (typeof ssl === 'boolean') return ssl;
  return {
    ...(ssl.caFile === undefined ? {} : { ca: read(ssl.caFile, 'ssl.caFile') }),
    ...(ssl.certFile === undefined ? {} : { cert: read(ssl.certFile, 'ssl.certFile') }),
    ...(ssl.keyFile === undefined ? {} : { key: read(ssl.keyFile, 'ssl.keyFile') }),
  };
}

function saslOf({ mechanism, username, passwordFile }: NonNullable<KafkaOptions['sasl']>): SASLOptions {
  const password = read(passwordFile, 'sasl.passwordFile').replace(/\r?\n$/, '');
  return { mechanism, username, password } as SASLOptions;
}

function read(file: string, field: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const problem = `the file cannot be read: ${(error as Error).message}`;
    throw new PicketError('bad_config', problem, { field, remedy: 'give the path of a file that this user may read' });
  }
}
