import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import type { Clock } from '../../../detector/notify/clock.js';
import type { Credentials, Receiver } from '../../../detector/notify/config.js';
import { type RouteConfig, routesOf } from '../../../detector/notify/route.js';
import type { Store } from '../../../detector/store/store.js';

/** A clock that only a test moves. */
export class FakeClock implements Clock {
  #now: number;
  readonly #timers = new Set<{ at: number; callback: () => void }>();

  constructor(now: number) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  after(ms: number, callback: () => void): () => void {
    const timer = { at: this.#now + Math.max(0, ms), callback };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Epoch ms of the next timer; Infinity: there is none. */
  next(): number {
    return Math.min(Number.POSITIVE_INFINITY, ...[...this.#timers].map(({ at }) => at));
  }

  advanceTo(now: number): void {
    while (this.next() <= now) {
      const at = this.next();
      this.#now = Math.max(this.#now, at);
      for (const timer of [...this.#timers]) if (timer.at === at && this.#timers.delete(timer)) timer.callback();
    }
    this.#now = now;
  }
}

export interface Hook {
  readonly url: string;
  readonly requests: { readonly path: string; readonly headers: IncomingHttpHeaders; readonly body: string }[];
}

export interface Answer {
  readonly status: number;
  readonly headers?: Record<string, string>;
}

/** A receiver on loopback; it answers as told, `stall`: never. */
export async function startHook(
  t: Pick<TestContext, 'after'>,
  answer: (request: number) => Answer | 'stall',
): Promise<Hook> {
  const requests: Hook['requests'] = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request.setEncoding('utf8')) body += chunk;
    requests.push({ path: request.url as string, headers: request.headers, body });
    const given = answer(requests.length - 1);
    if (given !== 'stall') response.writeHead(given.status, given.headers).end('thank you');
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`, requests };
}

export const receiverOf = (
  name: string,
  hook: Pick<Hook, 'url'>,
  { url = hook.url, headers = {}, secrets = [], routingKey, ...facts }: Partial<Receiver & Credentials> = {},
): Receiver => ({
  ...{ name, format: 'webhook', timeoutMs: 10_000, maxAttempts: 12, resendMs: 0 },
  ...{ minSeverity: 'warning', sendResolved: true, allowAddresses: ['127.0.0.0/8'] },
  ...{ credentials: () => ({ url, headers, secrets, routingKey }) },
  ...facts,
});

/** What a sender needs of a store, and of routes: without any given, each receiver hears of everything. */
export const sending = (store: Store, receivers: readonly Receiver[], routes: readonly RouteConfig[] = []) => ({
  ...{ groups: store.groups, outbox: store.outbox, receivers, routes: routesOf(routes, receivers) },
  silences: { until: () => undefined },
});

/** Waits for a condition, in real time. */
export async function until(condition: () => boolean, what: string, withinMs = 10_000): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`waited in vain for ${what}`);
    await setImmediate();
  }
}
