import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { PicketError } from '../../protocol/errors.js';
import { unknownInMatch } from '../notify/label-names.js';
import { Duration, MatchConfig, msOf } from '../notify/route.js';
import type { Silences } from '../notify/silences.js';
import type { Silence } from '../store/silences.js';
import { InvalidRequest, parsed } from './problem.js';
import { many } from './query-parameters.js';
import { resource } from './routes.js';

export interface SilenceRoutesDeps {
  readonly silences: Pick<Silences, 'add' | 'get' | 'list' | 'expire' | 'holding'>;
  /** Names of the labels that the rules in force add. */
  readonly ruleLabels: () => ReadonlySet<string>;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

const MAX_LISTED = 1000;
const MAX_MATCH_CHARS = 4096;

const Time = z.iso.datetime({ offset: true, error: 'must be an RFC 3339 time, such as 2026-01-31T12:00:00Z' });
const text = (max: number) => z.string().trim().min(1).max(max);

const NewSilence = z
  .strictObject({
    match: MatchConfig.refine((match) => JSON.stringify(match).length <= MAX_MATCH_CHARS, 'is too long').refine(
      (match) => Object.values(match).some((globs) => [globs].flat().some((glob) => !/^\**$/.test(glob))),
      'silences everything: name a job, kind, host or another label',
    ),
    starts_at: Time.optional(),
    ends_at: Time.optional(),
    duration: Duration.optional(),
    author: text(200),
    reason: text(2000),
  })
  .refine(({ ends_at, duration }) => (ends_at === undefined) !== (duration === undefined), {
    path: ['ends_at'],
    message: 'give either ends_at or duration',
  });

const STATUSES = ['pending', 'active', 'expired'] as const;
const ListQuery = z.strictObject({ status: many(z.enum(STATUSES)) });

/** Silences: nobody is told of the incidents that they fit while they last. They are ended, never deleted. */
export function silenceRoutes(app: FastifyInstance, { silences, ruleLabels, now }: SilenceRoutesDeps): void {
  resource(app, '/v1/silences', {
    GET: async (request) => {
      const { status } = parsed(ListQuery, request.query);
      const items = silences.list(MAX_LISTED).map((silence) => shown(silence, now()));
      return { items: items.filter((each) => !status?.length || status.includes(each.status)) };
    },
    POST: async (request, reply) => {
      const given = parsed(NewSilence, request.body);
      refuseUnknown(given.match, ruleLabels());
      const silence = shown(silences.add(silenceOf(given, now())), now());
      return reply.code(201).header('location', `/v1/silences/${silence.id}`).send(silence);
    },
  });
  resource<{ Params: { id: string } }>(app, '/v1/silences/:id', {
    GET: async (request) => shown(found(silences, request.params.id), now()),
    DELETE: async (request) => {
      silences.expire(request.params.id);
      return shown(found(silences, request.params.id), now());
    },
  });
}

/** A silence of a label that no incident has would silence nothing. */
function refuseUnknown(match: object, ofRules: ReadonlySet<string>): void {
  const issues = unknownInMatch(match, ofRules).map(({ name, problem, remedy }) => ({
    ...{ code: 'custom' as const, input: name, path: ['match', name], message: `${problem}; ${remedy}` },
  }));
  if (issues.length > 0) throw new InvalidRequest(new z.ZodError(issues), { match });
}

function silenceOf(given: z.infer<typeof NewSilence>, nowMs: number): Omit<Silence, 'id' | 'createdMs'> {
  const startsMs = given.starts_at === undefined ? nowMs : Date.parse(given.starts_at);
  const endsMs = given.ends_at === undefined ? startsMs + msOf(given.duration as string) : Date.parse(given.ends_at);
  const field = given.ends_at === undefined ? 'duration' : 'ends_at';
  if (endsMs <= startsMs) throw new PicketError('bad_input', 'ends before it starts', { field });
  if (endsMs <= nowMs) throw new PicketError('bad_input', 'is over already', { field });
  return { match: given.match, startsMs, endsMs, author: given.author, reason: given.reason };
}

function found(silences: SilenceRoutesDeps['silences'], id: string): Silence {
  const silence = silences.get(id);
  if (silence) return silence;
  throw new PicketError('not_found', `there is no silence "${id}"`, {
    remedy: '/v1/silences lists those that there are',
  });
}

function shown({ id, match, startsMs, endsMs, author, reason, createdMs }: Silence, nowMs: number) {
  const status: (typeof STATUSES)[number] = endsMs <= nowMs ? 'expired' : startsMs <= nowMs ? 'active' : 'pending';
  return {
    ...{ id, status, match, starts_at: timeOf(startsMs), ends_at: timeOf(endsMs) },
    ...{ author, reason, created_at: timeOf(createdMs) },
  };
}

const timeOf = (ms: number): string => new Date(ms).toISOString();
