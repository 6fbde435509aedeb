import { STATUS_CODES } from 'node:http';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import type * as z from 'zod';
import { type ErrorCode, PicketError } from '../../protocol/errors.js';
import { schemaMessage, valueAt } from '../../protocol/schema-messages.js';

/** An RFC 9457 problem. */
export interface Problem {
  /** `urn:picket:problem:` and an error code, or about:blank where the status says all. */
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail?: string;
  /** What is wrong with which part of the request. */
  readonly errors?: readonly { pointer: string; message: string }[];
  readonly [extension: string]: unknown;
}

const STATUS_OF: Record<ErrorCode, number> = {
  bad_input: 400,
  bad_config: 500,
  unsupported_version: 500,
  too_large: 413,
  not_found: 404,
  bus_unavailable: 503,
  store_unavailable: 503,
  conflict: 409,
};

/** A problem without a type of its own. */
export const plainProblem = (status: number, facts: Readonly<Record<string, unknown>> = {}): Problem => ({
  type: 'about:blank',
  title: STATUS_CODES[status] ?? 'Error',
  status,
  ...facts,
});

/** A request that a schema refused, as `bad_input` with every issue's place. */
export class InvalidRequest extends PicketError {
  readonly errors: readonly { pointer: string; message: string }[];

  /** @param given what the schema looked at */
  constructor(error: z.ZodError, given: unknown) {
    super('bad_input', 'the request does not fit the schema');
    this.errors = error.issues.flatMap((issue) => {
      const { path } = issue;
      if (issue.code === 'unrecognized_keys')
        return issue.keys.map((key) => ({ pointer: pointerOf([...path, key]), message: issue.message }));
      const { message, remedy } = schemaMessage(issue, valueAt(given, path));
      // What to write in place of a wrong type is told for YAML.
      const full = remedy === undefined || issue.code === 'invalid_type' ? message : `${message}; ${remedy}`;
      return [{ pointer: pointerOf(path), message: full }];
    });
  }
}

/** What a schema makes of a part of a request. Throws `InvalidRequest`. */
export function parsed<S extends z.ZodType>(schema: S, given: unknown): z.infer<S> {
  const result = schema.safeParse(given ?? {});
  if (!result.success) throw new InvalidRequest(result.error, given ?? {});
  return result.data;
}

/** RFC 6901. */
const pointerOf = (path: readonly PropertyKey[]): string =>
  path.map((name) => `/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');

/** The problem an error is told as. Of our own failures nothing but the kind: messages may hold paths. */
export function problemOf(error: unknown): Problem {
  if (!(error instanceof PicketError)) {
    const { statusCode = 500, message } = error as FastifyError;
    if (statusCode === 415) return plainProblem(415, { detail: 'send the body as application/json' });
    return statusCode < 500 ? plainProblem(statusCode, { detail: message }) : plainProblem(500);
  }
  const status = STATUS_OF[error.code];
  const type = `urn:picket:problem:${error.code}`;
  const problem = { ...plainProblem(status), type };
  if (status >= 500) return problem;
  const { field, remedy } = error.place;
  const detail = remedy ? `${error.problem}; ${remedy}` : error.problem;
  const fieldError = field === undefined ? undefined : [{ pointer: pointerOf([field]), message: error.problem }];
  const errors = error instanceof InvalidRequest ? error.errors : fieldError;
  return { ...problem, detail, ...(errors && { errors }) };
}

export function sendProblem(request: FastifyRequest, reply: FastifyReply, problem: Problem): FastifyReply {
  // As bytes: to text Fastify adds a charset, which this media type does not have.
  const body = Buffer.from(JSON.stringify({ ...problem, instance: request.url }));
  return reply.code(problem.status).type('application/problem+json').send(body);
}
