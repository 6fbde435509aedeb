import { createHash } from 'node:crypto';
import type { Outgoing } from '../http-post.js';
import type { Alert, AlertMessage } from '../message.js';
import type { FormatContext } from './format.js';
import { clipped, headlineOf } from './text.js';

/** Characters that PagerDuty takes of a summary. */
const MAX_SUMMARY = 1024;
/** PagerDuty takes 512 KB in all. */
const MAX_DETAILS = 400_000;
const SEVERITIES = ['critical', 'warning', 'info'];

/** An event of PagerDuty's Events API v2: one PagerDuty alert for each group, from its first trigger to its resolve. */
export function pagerDutyRequest(message: AlertMessage, { credentials, externalUrl }: FormatContext): Outgoing {
  const { status, group, alerts } = message;
  const event = {
    routing_key: credentials.routingKey,
    event_action: status === 'firing' ? 'trigger' : 'resolve',
    dedup_key: createHash('sha256').update(group.key).digest('hex'),
    ...(status === 'firing' && { payload: payloadOf(message, alerts[0] as Alert) }),
    client: 'Picket',
    client_url: externalUrl,
    links: alerts.slice(0, 10).map(({ generatorURL, labels }) => ({ href: generatorURL, text: labels.alertname })),
  };
  return { url: credentials.url, headers: {}, body: JSON.stringify(event) };
}

function payloadOf(message: AlertMessage, { labels, startsAt }: Alert) {
  const firing = message.alerts.filter(({ status }) => status === 'firing');
  const details = {
    firing: firing.map(({ labels, annotations }) => ({ ...labels, ...annotations })),
    num_firing: firing.length + message.truncated,
    reason: message.reason,
  };
  return {
    summary: clipped(headlineOf(message), MAX_SUMMARY),
    source: labels.hosts ?? labels.job ?? 'picket',
    severity: SEVERITIES.find((severity) => firing.some((alert) => alert.labels.severity === severity)) ?? 'info',
    timestamp: startsAt,
    component: labels.job,
    group: message.group.labels.alertname ?? labels.kind,
    class: labels.kind,
    custom_details:
      JSON.stringify(details).length <= MAX_DETAILS
        ? details
        : { num_firing: details.num_firing, reason: details.reason },
  };
}
