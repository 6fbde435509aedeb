import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { AddressGuard } from './address-guard.js';
import type { Clock } from './clock.js';
import { parseRetryAfter, type Reply } from './retry.js';

export interface Outgoing {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface PostOptions {
  readonly guard: AddressGuard;
  readonly timeoutMs: number;
  readonly clock: Clock;
}

/**
 * One POST over a connection of its own, to addresses that `guard` admits. Redirects are answers like others and are not
 * followed; proxies of the environment are not used. Never throws: without an answer the reply has no status; an abort by
 * `signal` is such a reply.
 */
export async function post(
  outgoing: Outgoing,
  { guard, timeoutMs, clock }: PostOptions,
  signal: AbortSignal,
): Promise<Reply> {
  const timeout = new AbortController();
  const stopTimer = clock.after(timeoutMs, () => timeout.abort());
  const progress = { sent: false };
  try {
    const { status, retryAfter } = await send(outgoing, guard, progress, AbortSignal.any([timeout.signal, signal]));
    return { status, error: `HTTP ${status}`, retryAfterMs: parseRetryAfter(retryAfter ?? null, clock.now()) };
  } catch (error) {
    const problem = timeout.signal.aborted ? `no answer within ${timeoutMs} ms` : networkProblem(error);
    return { status: undefined, error: problem, unanswered: progress.sent };
  } finally {
    stopTimer();
  }
}

interface Answer {
  readonly status: number;
  readonly retryAfter: string | undefined;
}

function send(
  { url, headers, body }: Outgoing,
  guard: AddressGuard,
  progress: { sent: boolean },
  signal: AbortSignal,
): Promise<Answer> {
  const target = new URL(url);
  guard.checkLiteral(target.hostname);
  const request = target.protocol === 'https:' ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const sending = request(target, {
      ...{ method: 'POST', agent: false, lookup: guard.lookup, signal },
      headers: { ...headers, 'content-length': Buffer.byteLength(body) },
    });
    sending.on('error', reject);
    sending.on('finish', () => {
      progress.sent = true;
    });
    sending.on('response', (response) => {
      // The status says all: an answer however long is not read.
      response.on('error', () => undefined).destroy();
      resolve({ status: response.statusCode as number, retryAfter: response.headers['retry-after'] });
    });
    sending.end(body);
  });
}

/** The code or the range only: messages hold addresses. */
function networkProblem(error: unknown): string {
  const { code, name, range } = error as NodeJS.ErrnoException & { range?: string };
  if (range) return `address not allowed (${range}): add it to allow_addresses if it is meant`;
  return `connection failed (${code ?? name})`;
}
