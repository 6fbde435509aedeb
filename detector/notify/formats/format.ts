import type { Credentials, Receiver } from '../config.js';
import type { Outgoing } from '../http-post.js';
import type { AlertMessage } from '../message.js';
import { alertsRequest } from './alertmanager.js';
import { pagerDutyRequest } from './pagerduty.js';
import { slackRequest } from './slack.js';
import { webhookRequest } from './webhook.js';

export interface FormatContext {
  readonly credentials: Credentials;
  /** Base of the links, without a slash at the end. */
  readonly externalUrl: string;
  /** Epoch milliseconds of the attempt. */
  readonly nowMs: number;
}

/** The request that tells a receiver of a message. */
export function requestOf(receiver: Receiver, message: AlertMessage, context: FormatContext): Outgoing {
  const { url, headers, body } = inFormat(receiver, message, context);
  return {
    url,
    body,
    headers: { ...context.credentials.headers, 'content-type': 'application/json', 'user-agent': 'picket', ...headers },
  };
}

function inFormat(receiver: Receiver, message: AlertMessage, context: FormatContext): Outgoing {
  switch (receiver.format) {
    case 'webhook':
      return webhookRequest(message, context);
    case 'alertmanager':
      return alertsRequest(message.alerts, receiver.resendMs, context);
    case 'pagerduty':
      return pagerDutyRequest(message, context);
    case 'slack':
      return slackRequest(message, context);
  }
}
