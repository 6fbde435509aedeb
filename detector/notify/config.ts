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

const File = z.string().min(1);

const common = {
  /** In metrics and logs instead of the URL, which may hold a token. */
  name: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'letters, digits, _ and - only, at most 64'),
  timeout_ms: z.int().min(1).max(60_000).default(10_000),
  max_attempts: z.int().min(1).max(100).default(12),
  min_severity: Severity.default('warning'),
  send_resolved: z.boolean().default(true),
  headers: HeaderConfig.default({}),
  /** Networks that it may be reached in, beside the public internet; loopback and private ones are refused otherwise. */
  allow_addresses: z.array(Network).default([]),
};
/** A URL that holds a secret stands in a file or in the environment. */
const url = { url: Url.optional(), url_file: File.optional(), url_env: File.optional() };

const Webhook = z.strictObject({
  ...common,
  ...url,
  format: z.literal('webhook').default('webhook'),
  /** Standard Webhooks secrets, `whsec_` and base64; several with white space between while one replaces another. */
  secret_file: File.optional(),
  secret_env: File.optional(),
});

const Alertmanager = z.strictObject({
  ...common,
  ...url,
  format: z.literal('alertmanager'),
  /** What fires is told again so often, or Alertmanager would take it to be over. */
  resend_seconds: z.int().min(1).max(3600).default(60),
});

const PagerDuty = z.strictObject({
  ...common,
  ...url,
  format: z.literal('pagerduty'),
  url: Url.default('https://events.pagerduty.com/v2/enqueue'),
  routing_key_file: File.optional(),
  routing_key_env: File.optional(),
});

const Slack = z.strictObject({
  ...common,
  format: z.literal('slack'),
  url_file: url.url_file,
  url_env: url.url_env,
});

/** A receiver as an operator writes it. Secrets stand in a file or in the environment, never here. */
export const ReceiverConfig = z
  .discriminatedUnion('format', [Webhook, Alertmanager, PagerDuty, Slack])
  .superRefine((receiver, context) => {
    const needed =
      receiver.format === 'pagerduty' ? ['routing_key_file', 'routing_key_env'] : urlFields(receiver.format);
    const given = needed.filter((name) => (receiver as Record<string, unknown>)[name] !== undefined);
    if (given.length !== 1)
      context.addIssue({ code: 'custom', path: [needed[0] as string], message: `give one of ${needed.join(', ')}` });
  });
export type ReceiverConfig = z.infer<typeof ReceiverConfig>;

/** The URL of a Slack webhook is a secret as a whole. */
const urlFields = (format: ReceiverConfig['format']): string[] =>
  format === 'slack' ? ['url_file', 'url_env'] : ['url', 'url_file', 'url_env'];

/** The receivers of a detector; their names are unique. */
export const ReceiverConfigs = z.array(ReceiverConfig).superRefine((receivers, context) => {
  const names = receivers.map(({ name }) => name);
  for (const [i, name] of names.entries())
    if (names.indexOf(name) !== i)
      context.addIssue({ code: 'custom', path: [i, 'name'], message: `receiver "${name}" is there already` });
});

/** What a request needs that nobody else may see: never log it. */
export interface Credentials {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly secrets: readonly Uint8Array[];
  readonly routingKey: string | undefined;
}

/** A receiver ready for sending. */
export interface Receiver extends ReceiverPolicy {
  readonly format: ReceiverConfig['format'];
  readonly timeoutMs: number;
  readonly maxAttempts: number;
  /** Of format `alertmanager`. */
  readonly resendMs: number;
  /** Addresses and CIDR networks. */
  readonly allowAddresses: readonly string[];
  /** Read anew each time, so that a file that is replaced counts at once. Throws `bad_config` naming receiver and field. */
  credentials(): Credentials;
}

/** Where secrets come from; only a composition root has them. */
export interface SecretSources {
  readonly env: Readonly<Record<string, string | undefined>>;
  readFile(path: string): string;
}

/** Makes a receiver of its configuration. Throws `bad_config` naming receiver and field, never a secret, where one cannot be read. */
export function resolveReceiver(config: ReceiverConfig, sources: SecretSources): Receiver {
  const credentials = () => credentialsOf(config, sources);
  credentials();
  return {
    name: config.name,
    format: config.format,
    timeoutMs: config.timeout_ms,
    maxAttempts: config.max_attempts,
    resendMs: config.format === 'alertmanager' ? config.resend_seconds * 1000 : 0,
    allowAddresses: config.allow_addresses,
    minSeverity: config.min_severity,
    sendResolved: config.send_resolved,
    credentials,
  };
}

function credentialsOf(config: ReceiverConfig, sources: SecretSources): Credentials {
  const place = (name: string): string => `receivers.${config.name}.${name}`;
  const fields = config as Readonly<Record<string, unknown>>;
  /** What `NAME_file` and `NAME_env` hold. */
  const read = (name: string): { text: string; field: string }[] =>
    (['file', 'env'] as const).flatMap((kind) => {
      const source = fields[`${name}_${kind}`];
      const field = place(`${name}_${kind}`);
      return typeof source === 'string'
        ? [{ field, text: readSecret({ [kind]: source } as SecretSource, field, sources) }]
        : [];
    });
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(config.headers))
    headers[name] = headerValue(name, value, place(`headers.${name}`), sources);
  const [secretUrl] = read('url');
  return {
    url: secretUrl ? checkedUrl(secretUrl.text, secretUrl.field) : ((fields.url as string | undefined) ?? ''),
    headers,
    secrets: read('secret').flatMap(({ text, field }) => text.split(/\s+/).map((each) => decodeSecret(each, field))),
    routingKey: read('routing_key')[0]?.text,
  };
}

function checkedUrl(text: string, field: string): string {
  if (Url.safeParse(text).success) return text;
  throw new PicketError('bad_config', 'not an http or https URL without credentials', {
    field,
    remedy: 'write the URL alone on one line',
  });
}

/** Throws `bad_config` naming the field where there is none. */
export function readSecret(source: SecretSource, field: string, sources: SecretSources): string {
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
