import type { LabelSet } from '../../store/outbox.js';
import type { Outgoing } from '../http-post.js';
import type { Alert, AlertMessage } from '../message.js';
import { webhookHeaders } from '../signature.js';
import type { FormatContext } from './format.js';

/** Alertmanager's webhook message, version "4". */
export interface AlertmanagerBody {
  readonly receiver: string;
  readonly status: 'firing' | 'resolved';
  readonly alerts: readonly Alert[];
  readonly notification_reason: string;
  readonly groupLabels: LabelSet;
  readonly commonLabels: LabelSet;
  readonly commonAnnotations: LabelSet;
  readonly externalURL: string;
  readonly version: '4';
  readonly groupKey: string;
  readonly truncatedAlerts: number;
}

/** Signed as a Standard Webhook for an attempt made now. */
export function webhookRequest(message: AlertMessage, { credentials, externalUrl, nowMs }: FormatContext): Outgoing {
  const body = JSON.stringify(alertmanagerBody(message, externalUrl));
  return { url: credentials.url, body, headers: webhookHeaders(message.id, nowMs, body, credentials.secrets) };
}

export function alertmanagerBody(message: AlertMessage, externalUrl: string): AlertmanagerBody {
  const { receiver, status, alerts, reason, group, truncated } = message;
  return {
    receiver,
    status,
    alerts,
    notification_reason: reason,
    groupLabels: group.labels,
    commonLabels: commonTo(alerts.map(({ labels }) => labels)),
    commonAnnotations: commonTo(alerts.map(({ annotations }) => annotations)),
    externalURL: externalUrl,
    version: '4',
    groupKey: group.key,
    truncatedAlerts: truncated,
  };
}

function commonTo(sets: readonly LabelSet[]): LabelSet {
  const entries = Object.entries(sets[0] ?? {});
  return Object.fromEntries(entries.filter(([name, value]) => sets.every((set) => set[name] === value)));
}
