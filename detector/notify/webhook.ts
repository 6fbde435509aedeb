import type { Notification } from '../store/store.js';
import { alertmanagerBody } from './alertmanager-body.js';
import type { Receiver } from './config.js';
import type { Outgoing } from './http-post.js';
import { webhookHeaders } from './signature.js';

/**
 * The request that tells a receiver of a notification, signed for an attempt at `atMs`.
 * @param externalUrl base of the links in messages, without a slash at the end
 */
export function webhookRequest(
  receiver: Receiver,
  notification: Notification,
  externalUrl: string,
  atMs: number,
): Outgoing {
  const body = JSON.stringify(alertmanagerBody(notification, externalUrl));
  return {
    url: receiver.url,
    body,
    headers: {
      ...receiver.headers,
      'content-type': 'application/json',
      'user-agent': 'picket',
      ...webhookHeaders(notification.id, atMs, body, receiver.secrets),
    },
  };
}
