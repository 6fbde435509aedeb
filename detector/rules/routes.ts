import type { FastifyInstance } from 'fastify';
import { plainProblem, sendProblem } from '../http/problem.js';
import { get } from '../http/routes.js';
import type { RuleFailure, RuleManager } from './manager.js';

/** Webhooks of git-sync give up after a second; a fetch that takes longer goes on without them. */
const ANSWER_WITHIN_MS = 800;

/** What rules are in force, and a way to have them looked at now. */
export function ruleRoutes(app: FastifyInstance, rules: Pick<RuleManager, 'reload' | 'status'>): void {
  get(app, '/v1/status/rules', async () => statusOf(rules));
  app.register(async (scope) => {
    // Whatever body a webhook brings says nothing that is needed.
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', (_request, payload, done) => {
      payload.resume();
      done(null);
    });
    // Those who call it, git-sync among them, cannot always bring a token.
    scope.post('/-/reload', { config: { open: true } }, async (request, reply) => {
      const outcome = await Promise.race([rules.reload(), later()]);
      if (outcome.state !== 'failed') return outcome;
      const { message, problems } = outcome.failure;
      return sendProblem(request, reply, plainProblem(422, { detail: message, errors: problems }));
    });
    scope.route({
      method: ['GET', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'],
      url: '/-/reload',
      handler: async (request, reply) => sendProblem(request, reply.header('allow', 'POST'), plainProblem(405)),
    });
  });
}

function statusOf(rules: Pick<RuleManager, 'status'>) {
  const { source, commit, rules: count, files, loadedAtMs, attemptedAtMs, failure, kindsWithoutRule } = rules.status();
  return {
    source,
    commit,
    rules: count,
    files,
    loaded_at: timeOf(loadedAtMs),
    last_attempt: {
      at: timeOf(attemptedAtMs),
      ok: attemptedAtMs !== null && failure === null,
      failure: failureOf(failure),
    },
    kinds_without_rule: kindsWithoutRule,
  };
}

const failureOf = (failure: RuleFailure | null) =>
  failure && { commit: failure.commit, message: failure.message, problems: failure.problems };

const timeOf = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());

const later = (): Promise<{ state: 'in_progress' }> =>
  new Promise((resolve) => {
    setTimeout(() => resolve({ state: 'in_progress' }), ANSWER_WITHIN_MS).unref();
  });
