import { createHash } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import * as z from 'zod';
import { PicketError } from '../../protocol/errors.js';
import type { Incident } from '../../protocol/incident.js';
import { nearest } from '../../protocol/mistyped-names.js';
import type { Silences } from '../notify/silences.js';
import type { Store } from '../store/store.js';
import { parsed } from './problem.js';
import { parseIncidentQuery } from './query-parameters.js';
import { get, resource } from './routes.js';

const NewAcknowledgement = z.strictObject({
  author: z.string().trim().min(1).max(200),
  note: z.string().trim().max(2000).default(''),
});

export interface IncidentRoutesDeps {
  readonly incidents: Pick<Store, 'acknowledge' | 'incident' | 'listIncidents' | 'job' | 'jobNames'>;
  readonly silences: Pick<Silences, 'add' | 'get' | 'list' | 'expire' | 'holding'>;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** A job is stale when no data of it has come for this long. */
  readonly staleAfterMs: number;
}

/** An incident, and the ids of the silences that hold it back now, as Alertmanager's `silencedBy`. */
export type ShownIncident = Incident & { readonly silenced_by: readonly string[] };

export interface IncidentList {
  /** May be fewer than the limit before the last page, where `silenced` is asked for. */
  readonly items: ShownIncident[];
  readonly next_cursor: string | null;
  /** A job that was asked for sends nothing any more: no incident then does not mean that all is well. */
  readonly stale?: true;
}

export function incidentRoutes(app: FastifyInstance, deps: IncidentRoutesDeps): void {
  get(app, '/v1/incidents', async (request) => listIncidents(request.query, deps));
  get<{ Params: { id: string } }>(app, '/v1/incidents/:id', async (request, reply) => {
    const incident = deps.incidents.incident(request.params.id);
    if (!incident) throw noIncident(request.params.id);
    return sendTagged(request, reply, JSON.stringify(shown(incident, deps)));
  });
  resource<{ Params: { id: string } }>(app, '/v1/incidents/:id/ack', {
    POST: async (request) => {
      const { author, note } = parsed(NewAcknowledgement, request.body);
      const incident = deps.incidents.acknowledge(request.params.id, { author, note, atMs: deps.now() });
      if (!incident) throw noIncident(request.params.id);
      return shown(incident, deps);
    },
  });
}

/** Among so many of the latest jobs the one is looked for that was meant. */
const KNOWN_JOBS = 1000;
/** Of which so many are named. */
const NAMED_JOBS = 5;

function noJob(name: string, known: readonly string[]): PicketError {
  const meant = nearest(name, known);
  const latest =
    known.length > 0 ? `the latest are ${known.slice(0, NAMED_JOBS).join(', ')}` : 'none has sent data yet';
  const remedy = meant === undefined ? latest : `did you mean "${meant}"?`;
  return new PicketError('not_found', `no data of job "${name}" has ever come`, { remedy });
}

const noIncident = (id: string): PicketError =>
  new PicketError('not_found', `there is no incident "${id}"`, { remedy: '/v1/incidents lists those that there are' });

const shown = (incident: Incident, { silences, now }: IncidentRoutesDeps): ShownIncident => ({
  ...incident,
  // What is over is told whoever asked for silence.
  silenced_by: incident.status === 'resolved' ? [] : silences.holding(incident, now()).map(({ id }) => id),
});

function listIncidents(query: unknown, deps: IncidentRoutesDeps): IncidentList {
  const { incidents, now, staleAfterMs } = deps;
  const { filter, silenced, cursor, limit } = parseIncidentQuery(query);
  const jobs = (filter.job ?? []).map((name) => {
    const job = incidents.job(name);
    if (!job) throw noJob(name, incidents.jobNames(KNOWN_JOBS));
    return job;
  });
  const stale = jobs.some(({ lastDataMs }) => now() - lastDataMs > staleAfterMs);
  const { items, nextCursor } = incidents.listIncidents(filter, cursor, limit);
  const all = items.map((incident) => shown(incident, deps));
  const wanted = all.filter(({ silenced_by }) => silenced === undefined || silenced_by.length > 0 === silenced);
  return { items: wanted, next_cursor: nextCursor ?? null, ...(stale && { stale }) };
}

/** With an entity tag, so that polling an unchanged incident costs a 304. */
function sendTagged(request: FastifyRequest, reply: FastifyReply, body: string): FastifyReply {
  const tag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`;
  reply.header('etag', tag).header('cache-control', 'no-cache');
  const known = (request.headers['if-none-match'] ?? '').split(',').map((each) => each.trim().replace(/^W\//, ''));
  if (known.includes(tag) || known.includes('*')) return reply.code(304).send();
  return reply.type('application/json').send(body);
}
