import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance, RawServerDefault, RouteGenericInterface, RouteHandlerMethod } from 'fastify';
import { plainProblem, sendProblem } from './problem.js';

type Handler<R extends RouteGenericInterface> = RouteHandlerMethod<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  R
>;

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;
type Handlers<R extends RouteGenericInterface> = Partial<Record<(typeof METHODS)[number], Handler<R>>>;

/** A resource and what may be done with it: every other method is answered 405, before its body is looked at. */
export function resource<R extends RouteGenericInterface>(
  app: FastifyInstance,
  url: string,
  handlers: Handlers<R>,
): void {
  const allowed = METHODS.filter((method) => handlers[method]);
  for (const method of allowed) app.route<R>({ method, url, handler: handlers[method] as Handler<R> });
  const allow = allowed.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', ');
  app.route({
    method: METHODS.filter((method) => !handlers[method]),
    url,
    onRequest: async (request, reply) => sendProblem(request, reply.header('allow', allow), plainProblem(405)),
    handler: () => undefined,
  });
}

/** A resource that can be read only. */
export function get<R extends RouteGenericInterface>(app: FastifyInstance, url: string, handler: Handler<R>): void {
  resource<R>(app, url, { GET: handler });
}
