import { PicketError } from '../../protocol/errors.js';

/** The broker's own name for what went wrong, as MESSAGE_TOO_LARGE, from under the client's wrappings. */
export function protocolError(error: unknown): string | undefined {
  for (let e = error; e instanceof Error; e = e.cause) {
    if ('type' in e && typeof e.type === 'string') return e.type;
  }
  return undefined;
}

/** Errors after which the partitions may be another consumer's. */
export const isRebalance = (error: unknown): boolean => REBALANCE_ERRORS.has(protocolError(error) ?? '');

const REBALANCE_ERRORS = new Set([
  'REBALANCE_IN_PROGRESS',
  'NOT_COORDINATOR_FOR_GROUP',
  'ILLEGAL_GENERATION',
  'UNKNOWN_MEMBER_ID',
]);

export function busError(error: unknown, brokers: readonly string[], topics: readonly string[] = []): PicketError {
  if (error instanceof PicketError) return error;
  const cause = error as Error;
  if (protocolError(error) === 'UNKNOWN_TOPIC_OR_PARTITION') {
    const problem = `Kafka at ${brokers.join(', ')} has no topic ${topics.join(' or ')}`;
    return new PicketError('not_found', problem, { remedy: 'create it before it is used' }, { cause });
  }
  const problem = `Kafka at ${brokers.join(', ')}: ${cause.message}`;
  const remedy = 'check the address, the user and that the broker runs';
  return new PicketError('bus_unavailable', problem, { remedy }, { cause });
}
