import * as z from 'zod';
import type { BusLog } from './log.js';
import type { BusOptions } from './open.js';

export const EmbeddedBusConfig = z.strictObject({
  kind: z.literal('embedded'),
  dir: z.string().min(1),
  fsync: z.enum(['always', 'never']).optional(),
  /** A partition over this size loses its oldest segments, read or not. */
  retention_bytes: z.int().positive().optional(),
});

export const KafkaBusConfig = z.strictObject({
  kind: z.literal('kafka'),
  brokers: z.array(z.string().min(1)).min(1),
  ssl: z
    .union([
      z.boolean(),
      z.strictObject({
        ca_file: z.string().optional(),
        cert_file: z.string().optional(),
        key_file: z.string().optional(),
      }),
    ])
    .optional(),
  sasl: z
    .strictObject({
      mechanism: z.enum(['plain', 'scram-sha-256', 'scram-sha-512']),
      username: z.string(),
      password_file: z.string(),
    })
    .optional(),
  replication_factor: z.int().positive().optional(),
});

/** A bus as operators write it in the YAML of a program. */
export const BusConfig = z.discriminatedUnion('kind', [EmbeddedBusConfig, KafkaBusConfig]);
export type BusConfig = z.infer<typeof BusConfig>;

/** What `openBus` takes. */
export function busOptionsOf(config: BusConfig, log: BusLog): BusOptions {
  if (config.kind === 'embedded') {
    const { dir, fsync, retention_bytes } = config;
    return {
      kind: 'embedded',
      dir,
      log,
      ...(fsync && { fsync }),
      ...(retention_bytes && { retentionBytes: retention_bytes }),
    };
  }
  const { brokers, ssl, sasl, replication_factor } = config;
  return {
    kind: 'kafka',
    brokers,
    log,
    ...(replication_factor && { replicationFactor: replication_factor }),
    ...(sasl && { sasl: { mechanism: sasl.mechanism, username: sasl.username, passwordFile: sasl.password_file } }),
    ...(ssl !== undefined && { ssl: typeof ssl === 'boolean' ? ssl : tlsFiles(ssl) }),
  };
}

function tlsFiles(ssl: {
  ca_file?: string | undefined;
  cert_file?: string | undefined;
  key_file?: string | undefined;
}) {
  return {
    ...(ssl.ca_file && { caFile: ssl.ca_file }),
    ...(ssl.cert_file && { certFile: ssl.cert_file }),
    ...(ssl.key_file && { keyFile: ssl.key_file }),
  };
}
