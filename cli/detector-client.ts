import type { Command } from 'commander';
import { PicketError } from '../protocol/errors.js';

const DEFAULT_URL = 'http://127.0.0.1:9478';

/** Says which detector a command talks to. */
export const withUrl = (command: Command): Command =>
  command.option('--url <url>', 'of the detector; default: $PICKET_URL', process.env.PICKET_URL ?? DEFAULT_URL);

interface Problem {
  readonly title?: string;
  readonly detail?: string;
  readonly errors?: readonly { readonly pointer: string; readonly message: string }[];
}

/** Asks a detector; gives the parsed answer. Throws PicketError with what it objects to, or where it cannot be reached. */
export async function ask<T>(url: string, method: 'GET' | 'POST' | 'DELETE', path: string, body?: object): Promise<T> {
  if (!URL.canParse(path, url))
    throw new PicketError('bad_input', `"${url}" is no URL`, {
      field: '--url',
      remedy: `write one such as ${DEFAULT_URL}`,
    });
  const target = new URL(path, url);
  const json = body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
  const response = await fetch(target, { method, ...json }).catch((cause) => {
    throw new PicketError(
      'bad_input',
      `no detector answers at ${target.origin} (${cause.cause?.code ?? cause.cause?.message ?? cause.message})`,
      { field: '--url', remedy: 'start it, or give the address of one that runs' },
      { cause },
    );
  });
  if (response.ok) return (await response.json()) as T;
  const { title, detail, errors } = (await response.json().catch(() => ({}))) as Problem;
  const places = errors?.map(({ pointer, message }) => `${pointer.slice(1)}: ${message}`).join('; ');
  throw new PicketError('bad_input', places ?? detail ?? title ?? `HTTP ${response.status}`);
}

/** Columns as wide as what stands in them; nothing is cut. */
export function table(rows: readonly (readonly string[])[]): string {
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
