import type { Notification } from '../store/store.js';
import { alertmanagerBody } from './alertmanager-body.js';
import type { Clock } from './clock.js';
import type { Receiver } from './config.js';
import { parseRetryAfter, type Reply } from './retry.js';
import { webhookHeaders } from './signature.js';

export interface WebhookDeps {
  readonly clock: Clock;
  /** Base of the links in messages, without a slash at the end. */
  readonly externalUrl: string;
  readonly fetch: typeof globalThis.fetch;
}

/** One attempt to tell a receiver. Never throws; an abort by `signal` gives a reply without status as a lost connection does. */
export async function postWebhook(
  receiver: Receiver,
  notification: Notification,
  deps: WebhookDeps,
  signal: AbortSignal,
): Promise<Reply> {
  const body = JSON.stringify(alertmanagerBody(notification, deps.externalUrl));
  const timeout = new AbortController();
  const stopTimer = deps.clock.after(receiver.timeoutMs, () => timeout.abort());
  try {
    const response = await deps.fetch(receiver.url, {
      method: 'POST',
      redirect: 'manual',
      body,
      signal: AbortSignal.any([timeout.signal, signal]),
      headers: {
        ...receiver.headers,
        'content-type': 'application/json',
        'user-agent': 'picket',
        ...webhookHeaders(notification.id, deps.clock.now(), body, receiver.secrets),
      },
    });
    // The status says all: an answer however long is not read.
    await response.body?.cancel().catch(() => undefined);
    const retryAfterMs = parseRetryAfter(response.headers.get('retry-after'), deps.clock.now());
    return { status: response.status, error: `HTTP ${response.status}`, retryAfterMs };
  } catch (error) {
    const problem = timeout.signal.aborted ? `no answer within ${receiver.timeoutMs} ms` : networkProblem(error);
    return { status: undefined, error: problem };
  } finally {
    stopTimer();
  }
}

/** The code only: messages hold addresses. */
function networkProblem(error: unknown): string {
  const { cause, name } = error as Error & { cause?: NodeJS.ErrnoException };
  return `connection failed (${cause?.code ?? cause?.name ?? name})`;
}
