import type { FastifyInstance } from 'fastify';
import type { Registry } from 'prom-client';
import { type ReadinessProbe, whyNotReady } from '../readiness.js';
import { plainProblem, sendProblem } from './problem.js';
import { get } from './routes.js';

export interface HealthRoutesDeps {
  readonly probes: readonly ReadinessProbe[];
  readonly registry: Registry;
}

export function healthRoutes(app: FastifyInstance, { probes, registry }: HealthRoutesDeps): void {
  get(app, '/healthz', async () => ({ status: 'ok' }));
  get(app, '/readyz', async (request, reply) => {
    const reasons = whyNotReady(probes);
    if (reasons.length === 0) return { status: 'ready' };
    return sendProblem(request, reply, plainProblem(503, { reasons }));
  });
  get(app, '/metrics', async (_request, reply) => reply.type(registry.contentType).send(await registry.metrics()));
}
