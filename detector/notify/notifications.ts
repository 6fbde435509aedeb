import { createHash } from 'node:crypto';
import { type Incident, SEVERITIES, type Severity } from '../../protocol/incident.js';
import type { AlertGroup, NewNotification, NotificationEvent } from '../store/outbox.js';
import { alertName, labelSetText, labelsOf } from './labels.js';
import type { Route } from './route.js';

/** What a receiver wants to hear of. */
export interface ReceiverPolicy {
  readonly name: string;
  readonly minSeverity: Severity;
  readonly sendResolved: boolean;
}

/**
 * What each receiver is to hear of one change of an incident: that it opens at or rises to a severity it asked for, and that it
 * is over. The first route that fits decides, and those after it that one with `continue` leads to; who was to hear of the
 * incident before hears how it goes on, whatever routes say by then (the store knows who that is).
 * Call it for every change, not once a batch: batches fall differently after a restart, and with them an incident that opens and
 * resolves within one would be told or not.
 */
export function notificationsFor(
  before: Incident | undefined,
  after: Incident,
  routes: readonly Route[],
): NewNotification[] {
  const event = eventOf(before, after);
  // Its storm is told instead; where it was told before the storm began, its end is told as well.
  if (!event || (after.part_of !== undefined && event !== 'resolved')) return [];
  const taken = event === 'resolved' ? new Map<string, Route>() : routesTaken(after, routes);
  const receivers = new Map(routes.map(({ receiver }) => [receiver.name, receiver]));
  return [...receivers.values()]
    .filter(({ minSeverity }) => event === 'resolved' || level(after.severity) >= level(minSeverity))
    .map(({ name }) => {
      const route = taken.get(name);
      const group = route && groupOf(after, route);
      return { id: notificationId(after, name, event), receiver: name, event, incident: after, group };
    });
}

/** Is there anybody who may hear of an incident, whatever its severity? */
export const isRouted = (incident: Incident, routes: readonly Route[]): boolean =>
  routes.some(({ match }) => match.fits(incident));

/** By receiver: the first of its routes that the incident takes. */
function routesTaken(incident: Incident, routes: readonly Route[]): Map<string, Route> {
  const taken = new Map<string, Route>();
  for (const route of routes) {
    if (!route.match.fits(incident)) continue;
    if (!taken.has(route.receiver.name)) taken.set(route.receiver.name, route);
    if (!route.continues) break;
  }
  return taken;
}

/** The key begins as Alertmanager's does: with the path of the route. */
function groupOf(incident: Incident, { match, groupBy }: Route): AlertGroup {
  const route = match.text;
  const path = route ? `{}/${route}` : '{}';
  if (!groupBy) {
    const own = { incident_id: incident.id };
    const labels = { alertname: alertName(incident.kind), ...own };
    return { key: `${path}:${labelSetText(own)}`, route, labels };
  }
  const all = labelsOf(incident, incident.severity);
  const labels = Object.fromEntries(groupBy.flatMap((name) => (all[name] === undefined ? [] : [[name, all[name]]])));
  return { key: `${path}:${labelSetText(labels)}`, route, labels };
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
  const facts = JSON.stringify([incident.id, receiver, transition, incident.reopened ?? 0]);
  return createHash('sha256').update(facts).digest('hex').slice(0, 32);
}
