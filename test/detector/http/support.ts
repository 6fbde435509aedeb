import type { TestContext } from 'node:test';
import type { FastifyInstance, LightMyRequestResponse } from 'fastify';
import { buildServer, type ServerDeps } from '../../../detector/http/server.js';
import { createMetrics } from '../../../detector/metrics.js';
import { Silences } from '../../../detector/notify/silences.js';
import type { Store } from '../../../detector/store/store.js';
import { temporaryStore } from '../store/support.js';

/** A server over a store of its own; `nowMs` is its clock. */
export function setUpServer(
  t: TestContext,
  facts: Partial<ServerDeps> = {},
): { app: FastifyInstance; store: Store; nowMs: number } {
  const { store } = temporaryStore(t);
  const nowMs = 10_000_000;
  const { registry } = createMetrics();
  const silences = new Silences({ store: store.silences, now: () => nowMs, onChange: () => undefined });
  const app = buildServer({
    ...{ incidents: store, outbox: store.outbox, silences, onRedrive: () => undefined, probes: [], registry },
    receivers: ['ops', 'pager'],
    ruleLabels: () => new Set(['team']),
    ...{ now: () => nowMs, staleAfterMs: 60_000 },
    ...facts,
  });
  t.after(() => app.close());
  return { app, store, nowMs };
}

/** A response's body, which must be a problem that repeats the status. */
export function problemIn(response: LightMyRequestResponse): Record<string, unknown> {
  const problem = response.json();
  if (response.headers['content-type'] !== 'application/problem+json') throw new Error(`no problem: ${response.body}`);
  if (problem.status !== response.statusCode) throw new Error(`status ${response.statusCode}: ${response.body}`);
  return problem;
}
