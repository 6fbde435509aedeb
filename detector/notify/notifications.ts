import { createHash } from 'node:crypto';
import { type Incident, SEVERITIES, type Severity } from '../../protocol/incident.js';
import type { NewNotification, NotificationEvent } from '../store/store.js';

/** What a receiver wants to hear of. */
export interface ReceiverPolicy {
  readonly name: string;
  readonly minSeverity: Severity;
  readonly sendResolved: boolean;
}

/**
 * What each receiver is to hear of one change of an incident: that it opens at or rises to a severity it asked for, and that it
 * is over (the outbox drops that where the receiver heard nothing before).
 * Call it for every change, not once a batch: batches fall differently after a restart, and with them an incident that opens and
 * resolves within one would be told or not.
 */
export function notificationsFor(
  before: Incident | undefined,
  after: Incident,
  receivers: readonly ReceiverPolicy[],
): NewNotification[] {
  const event = eventOf(before, after);
  if (!event) return [];
  const wanted = (receiver: ReceiverPolicy): boolean =>
    event === 'resolved' ? receiver.sendResolved : level(after.severity) >= level(receiver.minSeverity);
  return receivers.filter(wanted).map(({ name }) => ({
    id: notificationId(after, name, event),
    receiver: name,
    event,
    incident: after,
  }));
}

function eventOf(before: Incident | undefined, after: Incident): NotificationEvent | undefined {
  const wasFiring = before !== undefined && before.status !== 'resolved';
  if (after.status === 'resolved') return wasFiring ? 'resolved' : undefined;
  if (!wasFiring) return 'opened';
  return level(after.severity) > level(before.severity) ? 'escalated' : undefined;
}

const level = (severity: Severity): number => SEVERITIES.indexOf(severity);

/** Rising to one severity again, before the incident has reopened, has the same id and so is told once. */
function notificationId(incident: Incident, receiver: string, event: NotificationEvent): string {
  const transition = event === 'escalated' ? `escalated:${incident.severity}` : event;
  const reopened = incident.timeline.filter((entry) => entry.event === 'reopened').length;
  const facts = JSON.stringify([incident.id, receiver, transition, reopened]);
  return createHash('sha256').update(facts).digest('hex').slice(0, 32);
}
