import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import { plainProblem, sendProblem } from './problem.js';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Anybody may call it though it is no read: it changes nothing that is kept. */
    open?: true;
  }
}

const WRITES: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH', 'DELETE']);

/**
 * Refuses writes without one of the tokens as `Authorization: Bearer TOKEN` (RFC 6750), before their bodies are read.
 * @param tokens asked for each write, so that a file that is replaced counts at once
 */
export function requireToken(app: FastifyInstance, tokens: () => readonly string[]): void {
  app.addHook('onRequest', async (request, reply) => {
    if (!WRITES.has(request.method) || request.routeOptions.config.open) return;
    const given = /^Bearer +(\S+)$/i.exec(request.headers.authorization?.trim() ?? '')?.[1];
    const matches = given === undefined ? [] : tokens().map((token) => isSame(token, given));
    if (matches.includes(true)) return;
    const error = given === undefined ? '' : ', error="invalid_token"';
    reply.header('www-authenticate', `Bearer realm="picket"${error}`);
    const detail =
      given === undefined ? 'this needs a token: Authorization: Bearer TOKEN' : 'the token is not the right one';
    return sendProblem(request, reply, plainProblem(401, { detail }));
  });
}

/** In a time that says nothing of where two texts differ, nor of their lengths. */
function isSame(a: string, b: string): boolean {
  const [one, other] = [a, b].map((text) => createHash('sha256').update(text).digest()) as [Buffer, Buffer];
  return timingSafeEqual(one, other);
}
