import { STATUS_CODES } from 'node:http';
import { Readable } from 'node:stream';
import fastify, {
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  LogController,
} from 'fastify';
import type { Registry } from 'prom-client';
import * as z from 'zod';

export interface HttpDeps {
  readonly registry: Registry;
  /** Why the collector does not do its work; empty when it does. */
  readonly reasons: () => string[];
  /** The phases of the last seconds as Chrome JSON, in pieces. */
  readonly trace: (seconds: number) => Iterable<string>;
  readonly log?: FastifyBaseLogger;
}

const TraceQuery = z.strictObject({ seconds: z.coerce.number().positive().max(3600).default(10) });

/** The collector's HTTP interface, not yet listening. Every error is an RFC 9457 problem. */
export function buildServer({ registry, reasons, trace, log }: HttpDeps): FastifyInstance {
  const app = fastify({
    ...(log && { loggerInstance: log }),
    logController: new LogController({ disableRequestLogging: true }),
    // A client that never ends its request, or never reads its answer, keeps nobody from stopping.
    ...{ requestTimeout: 30_000, forceCloseConnections: true },
  });
  app.setNotFoundHandler((_request, reply) => problem(reply, 404));
  app.setErrorHandler((error: FastifyError, request, reply) => {
    const { statusCode = 500 } = error;
    if (statusCode >= 500) request.log.error({ err: error, url: request.url }, 'request failed');
    return problem(reply, statusCode, statusCode < 500 ? error.message : undefined);
  });
  app.get('/healthz', async () => ({ status: 'ok' }));
  app.get('/readyz', async (_request, reply) => {
    const found = reasons();
    return found.length === 0 ? { status: 'ready' } : problem(reply, 503, found.join('; '));
  });
  app.get('/metrics', async (_request, reply) => reply.type(registry.contentType).send(await registry.metrics()));
  app.get('/trace', async (request, reply) => {
    const query = TraceQuery.safeParse(request.query);
    if (!query.success) return problem(reply, 400, 'give /trace?seconds=N with N above 0 and at most 3600');
    const name = 'attachment; filename="picket-trace.json"';
    return reply
      .type('application/json')
      .header('content-disposition', name)
      .send(Readable.from(trace(query.data.seconds)));
  });
  return app;
}

/** As bytes: to text Fastify adds a charset, which this media type does not have. */
function problem(reply: FastifyReply, status: number, detail?: string): FastifyReply {
  const body = { type: 'about:blank', title: STATUS_CODES[status] ?? 'Error', status, ...(detail && { detail }) };
  return reply
    .code(status)
    .type('application/problem+json')
    .send(Buffer.from(JSON.stringify(body)));
}
