import { readFileSync } from 'node:fs';
import { PicketError } from '../../protocol/errors.js';
import type { Request, RequestStream } from './request.js';

export type LoggedRequest = Pick<Request, 'promptTokens' | 'outputTokens' | 'prefix'> & { readonly seconds: number };

/**
 * Reads a request log: Mooncake's JSONL (timestamp in ms, input_length, output_length, hash_ids) or Azure's CSV
 * (TIMESTAMP, ContextTokens, GeneratedTokens). Throws `bad_input` naming file, line and field.
 */
export function readRequestLog(file: string): LoggedRequest[] {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (cause) {
    throw new PicketError('bad_input', `cannot be read (${(cause as Error).message})`, { file }, { cause });
  }
  const lines = text.split(/\r?\n/);
  const parse = lines[0]?.startsWith('{') ? mooncakeLine : azureLine;
  const requests: LoggedRequest[] = [];
  for (const [i, line] of lines.entries()) {
    if (line === '' || (parse === azureLine && i === 0)) continue;
    try {
      requests.push(parse(line));
    } catch (error) {
      throw error instanceof PicketError ? error.at({ file, line: i + 1 }) : error;
    }
  }
  if (requests.length === 0)
    throw new PicketError('bad_input', 'holds no requests', { file, remedy: 'give a Mooncake JSONL or an Azure CSV' });
  return requests.sort((a, b) => a.seconds - b.seconds);
}

function mooncakeLine(line: string): LoggedRequest {
  let value: Record<string, unknown>;
  try {
    value = JSON.parse(line) as Record<string, unknown>;
  } catch (cause) {
    throw new PicketError('bad_input', `not JSON (${(cause as Error).message})`, {}, { cause });
  }
  const hashes = value.hash_ids;
  if (!Array.isArray(hashes) || !hashes.every((hash) => Number.isSafeInteger(hash)))
    throw new PicketError('bad_input', 'is not a list of integers', { field: 'hash_ids' });
  const promptTokens = tokens('input_length', value.input_length);
  return {
    seconds: finite('timestamp', value.timestamp) / 1000,
    promptTokens,
    outputTokens: tokens('output_length', value.output_length),
    // The last block is only partly full.
    prefix: hashes.slice(0, Math.floor(promptTokens / 512)) as number[],
  };
}

function azureLine(line: string): LoggedRequest {
  const [time, context, generated] = line.split(',');
  return {
    seconds: finite('TIMESTAMP', Date.parse(`${time?.replace(' ', 'T').slice(0, 23)}Z`) / 1000),
    promptTokens: tokens('ContextTokens', Number(context)),
    outputTokens: tokens('GeneratedTokens', Number(generated)),
    prefix: [],
  };
}

function finite(field: string, value: unknown): number {
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  throw new PicketError('bad_input', `${JSON.stringify(value) ?? 'nothing'} is not a time`, { field });
}

function tokens(field: string, value: unknown): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return value;
  throw new PicketError('bad_input', `${JSON.stringify(value) ?? 'nothing'} is not a number of tokens`, { field });
}

/** Every `of`-th request of a log, the rate of all of them changed to one every `meanGapNs`; starts over at its end. */
export class LoggedRequests implements RequestStream {
  readonly #log: readonly LoggedRequest[];
  readonly #scale: number;
  readonly #step: number;
  readonly #spanSeconds: number;
  #at: number;
  #rounds = 0;

  constructor(
    log: readonly LoggedRequest[],
    meanGapNs: number,
    share: { readonly first: number; readonly of: number },
  ) {
    this.#log = log;
    const first = log[0] as LoggedRequest;
    const last = log.at(-1) as LoggedRequest;
    // One more gap, so that the first request of the next round comes after the last one.
    this.#spanSeconds = Math.max(1e-3, (last.seconds - first.seconds) * (log.length / Math.max(1, log.length - 1)));
    this.#scale = (meanGapNs * log.length) / share.of / this.#spanSeconds;
    this.#step = share.of;
    this.#at = share.first;
  }

  next(): Request {
    while (this.#at >= this.#log.length) {
      this.#at -= this.#log.length;
      this.#rounds++;
    }
    const { seconds, promptTokens, outputTokens, prefix } = this.#log[this.#at] as LoggedRequest;
    const since = seconds - (this.#log[0] as LoggedRequest).seconds + this.#rounds * this.#spanSeconds;
    const id = `req-${this.#rounds * this.#log.length + this.#at}`;
    this.#at += this.#step;
    return { id, arrivalNs: since * this.#scale, promptTokens, outputTokens, prefix };
  }
}
