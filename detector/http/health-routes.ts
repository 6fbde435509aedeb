import type { FastifyInstance } from 'fastify';
import type { Registry } from 'prom-client';
import { PicketError } from '../../protocol/errors.js';
import { plainProblem, sendProblem } from './problem.js';
import { get } from './routes.js';

/** Something that must be well for the detector to do its work. */
export interface ReadinessProbe {
  readonly name: string;
  /** Why it is not; undefined when it is. A throw counts as a reason. */
  check(): string | undefined;
}

export interface HealthRoutesDeps {
  readonly probes: readonly ReadinessProbe[];
  readonly registry: Registry;
}

export function healthRoutes(app: FastifyInstance, { probes, registry }: HealthRoutesDeps): void {
  get(app, '/healthz', async () => ({ status: 'ok' }));
  get(app, '/readyz', async (request, reply) => {
    const reasons = probes.flatMap((probe) => {
      const reason = reasonOf(probe);
      return reason === undefined ? [] : [{ probe: probe.name, reason }];
    });
    if (reasons.length === 0) return { status: 'ready' };
    return sendProblem(request, reply, plainProblem(503, { reasons }));
  });
  get(app, '/metrics', async (_request, reply) => reply.type(registry.contentType).send(await registry.metrics()));
}

function reasonOf(probe: ReadinessProbe): string | undefined {
  try {
    return probe.check();
  } catch (error) {
    return error instanceof PicketError ? error.problem : 'check failed';
  }
}
