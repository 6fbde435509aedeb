import type { Command } from 'commander';
import { PicketError } from '../protocol/errors.js';
import { readConfigFile } from './config-file.js';
import { printable } from './printable.js';

const DEFAULT_URL = 'http://127.0.0.1:9478';

/** Which detector a command talks to, and what it shows to be allowed to change something. */
export interface Detector {
  readonly url: string;
  readonly tokenFile?: string | undefined;
}

export const withDetector = (command: Command): Command =>
  command
    .option('--url <url>', 'of the detector; default: $PICKET_URL', process.env.PICKET_URL ?? DEFAULT_URL)
    .option(
      '--token-file <file>',
      'holds the token that changes need; default: $PICKET_TOKEN_FILE',
      process.env.PICKET_TOKEN_FILE,
    );

interface Problem {
  readonly title?: string;
  readonly detail?: string;
  readonly errors?: readonly { readonly pointer: string; readonly message: string }[];
}

/** Fields of requests whose options are called otherwise. */
const OPTIONS: Readonly<Record<string, string>> = { starts_at: 'from', ends_at: 'until', duration: 'for' };

const REMEDIES: Readonly<Record<number, string>> = {
  401: 'name the file that holds it with --token-file or $PICKET_TOKEN_FILE',
  500: 'the log of the detector says why',
  503: 'the log of the detector says why',
};

/** `/match/hots` is what stood after `--match`. */
function optionOf(pointer: string): string {
  const [name = '', ...within] = pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
  return [`--${OPTIONS[name] ?? name.replaceAll('_', '-')}`, ...within.filter((part) => !/^\d+$/.test(part))].join(' ');
}

/**
 * Asks a detector; gives the parsed answer. Throws PicketError with what it objects to, by the options that were given, or
 * where it cannot be reached.
 */
export async function ask<T>(
  { url, tokenFile }: Detector,
  method: 'GET' | 'POST' | 'DELETE',
  path: string,
  body?: object,
): Promise<T> {
  if (!URL.canParse(path, url))
    throw new PicketError('bad_input', `"${url}" is no URL`, {
      field: '--url',
      remedy: `write one such as ${DEFAULT_URL}`,
    });
  const target = new URL(path, url);
  const headers = { ...authorization(tokenFile), ...(body && { 'content-type': 'application/json' }) };
  const response = await fetch(target, { method, headers, body: body ? JSON.stringify(body) : null }).catch((cause) => {
    throw new PicketError(
      'bad_input',
      `no detector answers at ${target.origin} (${cause.cause?.code ?? cause.cause?.message ?? cause.message})`,
      { field: '--url', remedy: 'start it, or give the address of one that runs' },
      { cause },
    );
  });
  const answer: unknown = await response.json().catch(() => undefined);
  if (answer === undefined)
    throw new PicketError('bad_input', `what answers at ${target.origin} is no detector (HTTP ${response.status})`, {
      field: '--url',
      remedy: 'give the address of one',
    });
  if (response.ok) return answer as T;
  const remedy = REMEDIES[response.status];
  throw new PicketError('bad_input', textOf(answer as Problem) ?? `HTTP ${response.status}`, { remedy });
}

function authorization(file: string | undefined): Readonly<Record<string, string>> {
  if (file === undefined) return {};
  const [token] = readConfigFile(file, '--token-file').trim().split(/\s+/);
  if (token && /^[\x21-\x7e]+$/.test(token)) return { authorization: `Bearer ${token}` };
  throw new PicketError('bad_config', 'holds no token', {
    file,
    remedy: 'write it there as one word of ASCII characters',
  });
}

function textOf({ title, detail, errors }: Problem): string | undefined {
  const full = (message: string): string => (detail?.startsWith(message) ? detail : message);
  const places = errors?.map(({ pointer, message }) => `${optionOf(pointer)}: ${full(message)}`);
  return places?.join('; ') ?? detail ?? title;
}

/** A list that comes in pages, whole; what else a page says is what the last one said. */
export async function askAll<P extends { items: unknown[] }>(
  detector: Detector,
  path: string,
  query: URLSearchParams,
): Promise<P> {
  query.set('limit', '200');
  const items: unknown[] = [];
  for (;;) {
    const page = await ask<P & { next_cursor: string | null }>(detector, 'GET', `${path}?${query}`);
    items.push(...page.items);
    if (page.next_cursor === null) return { ...page, items };
    query.set('cursor', page.next_cursor);
  }
}

/** Query parameters of options; a list is one that is repeated, and what was not given is left out. */
export function queryOf(options: object): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, given] of Object.entries(options))
    for (const value of [given ?? []].flat()) query.append(name, String(value));
  return query;
}

/** Columns as wide as what stands in them; nothing is cut. */
export function table(given: readonly (readonly string[])[]): string {
  const rows = given.map((row) => row.map(printable));
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => (row[column] as string).length))) ?? [];
  return rows
    .map((row) =>
      row
        .map((text, i) => text.padEnd(widths[i] as number))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
