import type { Incident } from '../../protocol/incident.js';
import type { AlertGroup, LabelSet, Learned, Message, MessageEntry } from '../store/outbox.js';
import { annotationsOf } from './annotations.js';
import { fingerprintOf, labelsOf } from './labels.js';

/** An alert as Alertmanager's messages hold it. */
export interface Alert {
  readonly status: 'firing' | 'resolved';
  readonly labels: LabelSet;
  readonly annotations: LabelSet;
  /** RFC 3339. */
  readonly startsAt: string;
  /** RFC 3339; Go's zero time while it fires. */
  readonly endsAt: string;
  readonly generatorURL: string;
  readonly fingerprint: string;
}

/** Go's zero time, which stands for "has not ended". */
export const NOT_ENDED = '0001-01-01T00:00:00Z';

/** A message as every format tells it. The same at every attempt: until it is delivered nothing else of its group is. */
export interface AlertMessage {
  readonly id: string;
  readonly receiver: string;
  readonly status: 'firing' | 'resolved';
  readonly reason: string;
  readonly group: AlertGroup;
  readonly alerts: readonly Alert[];
  /** How many more fire than are named. */
  readonly truncated: number;
}

/**
 * What a message tells, and what its receiver knows once it is delivered; no alert: there is nothing to tell, since what it
 * ends was never told or its receiver does not want to hear of ends.
 * The severity and a rule's labels are labels of an alert, so when they change the alert told before ends as the new one begins.
 * @param externalUrl base of the links, without a slash at the end
 */
export function alertMessage(
  message: Message,
  externalUrl: string,
  sendResolved: boolean,
): { told: AlertMessage; learned: Learned[] } {
  const { id, receiver, group, entries, truncated } = message;
  const alerts: Alert[] = [];
  const learned: Learned[] = [];
  for (const entry of entries) {
    const { incident, seq } = entry;
    const now = entry.event === 'resolved' ? null : labelsOf(incident, incident.severity);
    const before =
      entry.told && (Object.keys(entry.told).length > 0 ? entry.told : labelsOf(incident, incident.severity));
    if (now) alerts.push(alertOf(incident, now, null, externalUrl));
    if (before && (now ? fingerprintOf(now) !== fingerprintOf(before) : sendResolved))
      alerts.push(alertOf(incident, before, incident.resolved_at ?? lastChangeOf(incident), externalUrl));
    learned.push({ incident: incident.id, seq, labels: now });
  }
  // What fires is looked at first.
  alerts.sort((a, b) => Number(a.status === 'resolved') - Number(b.status === 'resolved'));
  const status = alerts[0]?.status ?? 'resolved';
  const told = { id, receiver, status, reason: reasonOf(message, status), group, alerts, truncated };
  return { told, learned };
}

/** In Alertmanager's words. */
function reasonOf({ entries, reminder }: Message, status: AlertMessage['status']): string {
  if (reminder) return 'repeat interval elapsed';
  if (status === 'resolved') return 'all alerts resolved';
  if (entries.every(({ told }) => told === null)) return 'first notification';
  return entries.some(isNews) ? 'new alerts added' : 'some alerts resolved';
}

const isNews = ({ event, told, incident }: MessageEntry): boolean =>
  event !== 'resolved' && (told === null || told.severity !== incident.severity);

export function alertOf(incident: Incident, labels: LabelSet, endsAt: string | null, externalUrl: string): Alert {
  return {
    status: endsAt === null ? 'firing' : 'resolved',
    labels,
    annotations: annotationsOf(incident),
    startsAt: incident.started_at,
    endsAt: endsAt ?? NOT_ENDED,
    generatorURL: `${externalUrl}/v1/incidents/${encodeURIComponent(incident.id)}`,
    fingerprint: fingerprintOf(labels),
  };
}

const lastChangeOf = (incident: Incident): string => incident.timeline.at(-1)?.at ?? incident.detected_at;
