import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify';
import { requireToken } from './authentication.js';
import { type HealthRoutesDeps, healthRoutes } from './health-routes.js';
import { type IncidentRoutesDeps, incidentRoutes } from './incident-routes.js';
import { type NotificationRoutesDeps, notificationRoutes } from './notification-routes.js';
import { plainProblem, problemOf, sendProblem } from './problem.js';
import { type SilenceRoutesDeps, silenceRoutes } from './silence-routes.js';

export interface ServerDeps extends IncidentRoutesDeps, SilenceRoutesDeps, NotificationRoutesDeps, HealthRoutesDeps {
  readonly log?: FastifyBaseLogger;
  /** What a write must bring one of; absent: whoever reaches the port may write. */
  readonly apiTokens?: (() => readonly string[]) | undefined;
}

/** The detector's HTTP interface, not yet listening. Every error is an RFC 9457 problem. */
export function buildServer(deps: ServerDeps): FastifyInstance {
  const app = fastify({
    ...(deps.log && { loggerInstance: deps.log }),
    logController: new LogController({ disableRequestLogging: true }),
    // A client that never ends its request, or never reads its answer, keeps nobody from stopping.
    ...{ requestTimeout: 30_000, forceCloseConnections: true },
    frameworkErrors: sendError,
    clientErrorHandler: refuseConnection,
  });
  app.setErrorHandler(sendError);
  app.setNotFoundHandler((request, reply) => sendProblem(request, reply, plainProblem(404)));
  if (deps.apiTokens) requireToken(app, deps.apiTokens);
  incidentRoutes(app, deps);
  silenceRoutes(app, deps);
  notificationRoutes(app, deps);
  healthRoutes(app, deps);
  return app;
}

function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const problem = problemOf(error);
  if (problem.status >= 500) request.log.error({ err: error, url: request.url }, 'request failed');
  sendProblem(request, reply, problem);
}

/** What is not HTTP never becomes a request; it still gets a problem. */
function refuseConnection(error: NodeJS.ErrnoException, socket: Socket): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const status = { HPE_HEADER_OVERFLOW: 431, ERR_HTTP_REQUEST_TIMEOUT: 408 }[error.code ?? ''] ?? 400;
  const body = JSON.stringify(plainProblem(status));
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/problem+json\r\n` +
      `Content-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
  );
}
