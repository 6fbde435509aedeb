import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { PicketError } from '../../protocol/errors.js';
import { nearest } from '../../protocol/mistyped-names.js';
import { MESSAGE_STATES, type MessageInfo, type Outbox } from '../store/outbox.js';
import { parsed } from './problem.js';
import { integer } from './query-parameters.js';
import { resource } from './routes.js';

export interface NotificationRoutesDeps {
  readonly outbox: Pick<Outbox, 'list' | 'redrive'>;
  /** Names of those that are configured. */
  readonly receivers: readonly string[];
  /** Called after messages were put back to be sent. */
  readonly onRedrive: () => void;
}

const receiver = z.string().min(1).max(64).optional();
const ListQuery = z.strictObject({
  state: z.enum(MESSAGE_STATES).optional(),
  receiver,
  cursor: integer(1, Number.MAX_SAFE_INTEGER).optional(),
  limit: integer(1, 200).default(50),
});
const RedriveQuery = z.strictObject({ receiver });

/** What was sent to receivers, what waits and what was given up; and a way to have that told after all. */
export function notificationRoutes(
  app: FastifyInstance,
  { outbox, receivers, onRedrive }: NotificationRoutesDeps,
): void {
  const mustBeKnown = (name: string | undefined): void => {
    if (name !== undefined && !receivers.includes(name)) throw noReceiver(name, receivers);
  };
  resource(app, '/v1/notifications', {
    GET: async (request) => {
      const { cursor, limit, ...filter } = parsed(ListQuery, request.query);
      const { items, nextSeq } = outbox.list(filter, cursor, limit);
      // One that is configured no more may have left some.
      if (items.length === 0) mustBeKnown(filter.receiver);
      return { items: items.map(shown), next_cursor: nextSeq === undefined ? null : String(nextSeq) };
    },
  });
  const redrive = (filter: Parameters<Outbox['redrive']>[0]): { redriven: number } => {
    const redriven = outbox.redrive(filter);
    if (redriven > 0) onRedrive();
    return { redriven };
  };
  resource(app, '/v1/notifications/redrive', {
    POST: async (request) => {
      const filter = parsed(RedriveQuery, request.query);
      mustBeKnown(filter.receiver);
      return redrive(filter);
    },
  });
  resource<{ Params: { id: string } }>(app, '/v1/notifications/:id/redrive', {
    POST: async (request) => {
      const outcome = redrive({ id: request.params.id });
      if (outcome.redriven === 0) throw new PicketError('not_found', 'no notification of this id was given up');
      return outcome;
    },
  });
}

function noReceiver(name: string, known: readonly string[]): PicketError {
  const meant = nearest(name, known);
  const all = known.length > 0 ? `configured are ${known.join(', ')}` : 'none is configured';
  const remedy = meant === undefined ? all : `did you mean "${meant}"? ${all}`;
  return new PicketError('not_found', `there is no receiver "${name}"`, { field: 'receiver', remedy });
}

const shown = ({ id, receiver, groupKey, state, attempts, createdMs, changedMs, error, incidents }: MessageInfo) => ({
  ...{ id, receiver, group_key: groupKey, state, attempts, error, incidents },
  ...{ created_at: new Date(createdMs).toISOString(), changed_at: new Date(changedMs).toISOString() },
});
