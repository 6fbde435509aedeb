import * as z from 'zod';
import { PicketError } from '../../protocol/errors.js';
import { Severity } from '../../protocol/incident.js';
import { networkOf } from './address-guard.js';
import type { ReceiverPolicy } from './notifications.js';

/** Set by the sender itself. */
const RESERVED_HEADER = /^(webhook-.*|host|content-.*|transfer-encoding|connection|user-agent)$/;
const SECRET_HEADER = /^(authorization|proxy-authorization|cookie)$|token|secret|api-?key/;

const SecretSource = z.union([z.strictObject({ file: z.string().min(1) }), z.strictObject({ env: z.string().min(1) })]);
type SecretSource = z.infer<typeof SecretSource>;

const Url = z
  .url({ protocol: /^https?$/, error: 'must be an http or https URL' })
  .refine(
    (url) => !/^[^/]*\/\/[^/?#]*@/.test(url),
    'must not hold credentials: give an authorization header from a file',
  );

const HeaderConfig = z
  .record(
    z
      .string()
      .toLowerCase()
      .regex(/^[a-z0-9-]+$/),
    z.union([z.string(), SecretSource]),
  )
  .superRefine((headers, context) => {
    for (const [name, value] of Object.entries(headers)) {
      if (RESERVED_HEADER.test(name)) context.addIssue({ code: 'custom', path: [name], message: 'is set by Picket' });
      else if (SECRET_HEADER.test(name) && typeof value === 'string')
        context.addIssue({ code: 'custom', path: [name], message: 'give {file: PATH} or {env: NAME}, not the secret' });
    }
  });

const Network = z.string().refine(isNetwork, 'is not an address or network; write 10.0.0.0/8 or fd12::7');

function isNetwork(text: string): boolean {
  try {
    networkOf(text);
    return true;
  } catch {
    return false;
  }
}

/** A webhook receiver as an operator writes it. Secrets stand in a file or in the environment, never here. */
export const ReceiverConfig = z.strictObject({
  /** In metrics and logs instead of the URL, which may hold a token. */
  name: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'letters, digits, _ and - only, at most 64'),
  url: Url,
  /** Standard Webhooks secrets, `whsec_` and base64; several with white space between while one replaces another. */
  secret_file: z.string().min(1).optional(),
  secret_env: z.string().min(1).optional(),
  timeout_ms: z.int().min(1).max(60_000).default(10_000),
  max_attempts: z.int().min(1).max(100).default(12),
  min_severity: Severity.default('warning'),
  send_resolved: z.boolean().default(true),
  headers: HeaderConfig.default({}),
  /** Networks that it may be reached in, beside the public internet; loopback and private ones are refused otherwise. */
  allow_addresses: z.array(Network).default([]),
});
export type ReceiverConfig = z.infer<typeof ReceiverConfig>;

/** The receivers of a detector; their names are unique. */
export const ReceiverConfigs = z.array(ReceiverConfig).superRefine((receivers, context) => {
  const names = receivers.map(({ name }) => name);
  for (const [i, name] of names.entries())
    if (names.indexOf(name) !== i)
      context.addIssue({ code: 'custom', path: [i, 'name'], message: `receiver "${name}" is there already` });
});

/** A receiver ready for sending. Holds secrets: never log it. */
export interface Receiver extends ReceiverPolicy {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly secrets: readonly Uint8Array[];
  readonly timeoutMs: number;
  readonly maxAttempts: number;
  /** Addresses and CIDR networks. */
  readonly allowAddresses: readonly string[];
}

/** Where secrets come from; only a composition root has them. */
export interface SecretSources {
  readonly env: Readonly<Record<string, string | undefined>>;
  readFile(path: string): string;
}

/** Reads a receiver's secrets. Throws `bad_config` naming receiver and field, never a secret. */
export function resolveReceiver(config: ReceiverConfig, sources: SecretSources): Receiver {
  const { secret_file, secret_env } = config;
  const field = (name: string): string => `receivers.${config.name}.${name}`;
  const secretsFrom = (name: string, source: SecretSource): Uint8Array[] =>
    readSecret(source, field(name), sources)
      .split(/\s+/)
      .map((text) => decodeSecret(text, field(name)));
  const secrets = secret_file ? secretsFrom('secret_file', { file: secret_file }) : [];
  if (secret_env) secrets.push(...secretsFrom('secret_env', { env: secret_env }));
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(config.headers))
    headers[name] = headerValue(name, value, field(`headers.${name}`), sources);
  return {
    name: config.name,
    url: config.url,
    headers,
    secrets,
    timeoutMs: config.timeout_ms,
    maxAttempts: config.max_attempts,
    allowAddresses: config.allow_addresses,
    minSeverity: config.min_severity,
    sendResolved: config.send_resolved,
  };
}

function readSecret(source: SecretSource, field: string, sources: SecretSources): string {
  const missing = (problem: string, file?: string, cause?: unknown) =>
    new PicketError('bad_config', problem, { file, field, remedy: 'give the secret there' }, { cause });
  if ('env' in source) {
    const value = sources.env[source.env]?.trim();
    if (!value) throw missing(`environment variable ${source.env} is not set`);
    return value;
  }
  try {
    const value = sources.readFile(source.file).trim();
    if (value) return value;
  } catch (cause) {
    throw missing(`cannot be read (${(cause as NodeJS.ErrnoException).code})`, source.file, cause);
  }
  throw missing('the file is empty', source.file);
}

function headerValue(name: string, value: string | SecretSource, field: string, sources: SecretSources): string {
  const text = typeof value === 'string' ? value : readSecret(value, field, sources);
  try {
    new Headers([[name, text]]);
  } catch {
    // The cause would quote the value.
    throw new PicketError('bad_config', 'not a header value', { field, remedy: 'one line of Latin-1 characters' });
  }
  return text;
}

function decodeSecret(text: string, field: string): Uint8Array {
  const base64 = text.replace(/^whsec_/, '');
  const secret = Buffer.from(base64, 'base64');
  const canonical = (value: string): string => value.replace(/=+$/, '');
  if (canonical(secret.toString('base64')) === canonical(base64) && secret.length >= 24 && secret.length <= 64)
    return secret;
  throw new PicketError('bad_config', 'not a webhook secret: "whsec_" and 24 to 64 bytes in base64', {
    field,
    remedy: 'make one with: echo "whsec_$(openssl rand -base64 32)"',
  });
}
