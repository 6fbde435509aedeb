import type { Outgoing } from '../http-post.js';
import type { Alert, AlertMessage } from '../message.js';
import type { FormatContext } from './format.js';
import { clipped, headlineOf } from './text.js';

/** Characters that Slack takes of a header and of a section, and blocks of a message. */
const MAX_HEADER = 150;
const MAX_SECTION = 3000;
const MAX_BLOCKS = 50;

/** A message for a Slack incoming webhook, in Block Kit. */
export function slackRequest(message: AlertMessage, { credentials }: FormatContext): Outgoing {
  const title = `${message.status === 'firing' ? '🔥' : '✅'} ${headlineOf(message)}`;
  const shown = message.alerts.slice(0, MAX_BLOCKS - 2);
  const more = message.alerts.length - shown.length + message.truncated;
  const body = {
    // What notifications on a phone show.
    text: escaped(clipped(title, MAX_HEADER)),
    blocks: [
      { type: 'header', text: { type: 'plain_text', text: clipped(title, MAX_HEADER), emoji: true } },
      ...shown.map((alert) => ({
        type: 'section',
        text: { type: 'mrkdwn', text: clipped(textOf(alert), MAX_SECTION) },
      })),
      { type: 'context', elements: [{ type: 'mrkdwn', text: footerOf(message, more) }] },
    ],
  };
  return { url: credentials.url, headers: {}, body: JSON.stringify(body) };
}

function textOf({ status, labels, annotations, generatorURL }: Alert): string {
  const { summary = '', cost, runner_up, runbook_url } = annotations;
  const where = ['job', 'hosts', 'ranks', 'nic', 'link', 'group'].flatMap((name) =>
    labels[name] ? [`${name} ${labels[name]}`] : [],
  );
  const lines = [
    `*${status === 'resolved' ? 'Resolved' : labels.severity}* <${generatorURL}|${escaped(clipped(summary, 1000))}>`,
    escaped(clipped(where.join(', '), 500)),
    ...(cost && status === 'firing' ? [escaped(cost)] : []),
    ...(runner_up && status === 'firing' ? [`Not ${escaped(clipped(runner_up, 500))}`] : []),
    ...(runbook_url ? [`<${escaped(runbook_url)}|Runbook>`] : []),
  ];
  return lines.filter((line) => line !== '').join('\n');
}

const footerOf = ({ reason, receiver }: AlertMessage, more: number): string =>
  `Picket to ${escaped(receiver)}: ${reason}${more > 0 ? `, and ${more} more` : ''}`;

/** Slack's three characters of its own. */
const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
