import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance, RawServerDefault, RouteGenericInterface, RouteHandlerMethod } from 'fastify';
import { plainProblem, sendProblem } from './problem.js';

type Handler<R extends RouteGenericInterface> = RouteHandlerMethod<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  R
>;

/** A resource that can be read only: every other method is answered 405, before its body is looked at. */
export function get<R extends RouteGenericInterface>(app: FastifyInstance, url: string, handler: Handler<R>): void {
  app.get<R>(url, handler);
  app.route({
    method: ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'],
    url,
    onRequest: async (request, reply) => sendProblem(request, reply.header('allow', 'GET, HEAD'), plainProblem(405)),
    handler: () => undefined,
  });
}
