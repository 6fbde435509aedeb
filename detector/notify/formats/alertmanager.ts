import type { Outgoing } from '../http-post.js';
import type { Alert } from '../message.js';
import type { FormatContext } from './format.js';

const PATH = '/api/v2/alerts';

/**
 * Alerts for Alertmanager's API v2. What fires ends by itself four sendings from now, as Prometheus has it, so that alerts of
 * a detector that is gone do not fire for ever.
 */
export function alertsRequest(
  alerts: readonly Alert[],
  resendMs: number,
  { credentials, nowMs }: FormatContext,
): Outgoing {
  const body = alerts.map(({ status, labels, annotations, startsAt, endsAt, generatorURL }) => {
    const endsMs = status === 'firing' ? nowMs + 4 * resendMs : Math.min(Date.parse(endsAt), nowMs);
    const startsMs = Date.parse(startsAt);
    // Event time and this clock may disagree, and an alert must not end before it starts.
    const ends = new Date(Math.max(endsMs, startsMs)).toISOString();
    return { labels, annotations, startsAt, endsAt: endsMs < startsMs ? startsAt : ends, generatorURL };
  });
  const base = credentials.url.replace(/\/+$/, '');
  return { url: base.endsWith(PATH) ? base : base + PATH, headers: {}, body: JSON.stringify(body) };
}
