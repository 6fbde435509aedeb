import assert from 'node:assert/strict';
import { test } from 'node:test';
import { requestOf } from '../../../detector/notify/formats/format.js';
import { clipped } from '../../../detector/notify/formats/text.js';
import { labelsOf } from '../../../detector/notify/labels.js';
import { alertMessage } from '../../../detector/notify/message.js';
import type { MessageEntry } from '../../../detector/store/outbox.js';
import type { Incident } from '../../../protocol/incident.js';
import { groupOf, newIncident, resolved } from '../store/support.js';
import { receiverOf } from './support.js';

const NOW = Date.parse('2026-03-01T12:00:00Z');
const HOOK = { url: 'https://ops.example/hook' };

const fires = (incident: Incident): MessageEntry => ({ seq: 1, event: 'opened', incident, told: null });
const ends = (incident: Incident): MessageEntry => ({
  ...{ seq: 2, event: 'resolved', incident: resolved(incident), told: labelsOf(incident, incident.severity) },
});

/** The parsed body of the request that tells these, and the rest of the request. */
function told(
  format: 'pagerduty' | 'slack' | 'alertmanager',
  entries: MessageEntry[],
  group = groupOf('a'),
  truncated = 0,
) {
  const message = { id: 'n', receiver: 'ops', attempts: 0, reminder: false, truncated, group, entries };
  const receiver = receiverOf('ops', HOOK, {
    format,
    resendMs: 60_000,
    routingKey: 'R'.repeat(32),
    headers: { 'x-team': 'gpu' },
  });
  const context = { credentials: receiver.credentials(), externalUrl: 'https://picket.example', nowMs: NOW };
  const { body, ...request } = requestOf(receiver, alertMessage(message, context.externalUrl, true).told, context);
  return { ...request, text: body, body: JSON.parse(body) };
}

test('every format sends the configured headers and says that it is JSON', () => {
  for (const format of ['pagerduty', 'slack', 'alertmanager'] as const) {
    const { headers } = told(format, [fires(newIncident('a'))]);
    assert.deepEqual(headers, { 'x-team': 'gpu', 'content-type': 'application/json', 'user-agent': 'picket' });
  }
});

test('PagerDuty: one alert for a group, from its trigger over its changes to its resolve', () => {
  const a = newIncident('a', { subject: { hosts: ['h1'] } });
  const trigger = told('pagerduty', [fires(a)]).body;
  assert.deepEqual(
    { ...trigger, payload: { ...trigger.payload, custom_details: 0 } },
    {
      routing_key: 'R'.repeat(32),
      event_action: 'trigger',
      dedup_key: trigger.dedup_key,
      payload: {
        summary: 'PicketStraggler (llama): rank 3 computes slower than its peers',
        source: 'h1',
        severity: 'warning',
        timestamp: '2026-03-01T10:00:00.123456789Z',
        component: 'llama',
        group: 'PicketStraggler',
        class: 'straggler',
        custom_details: 0,
      },
      client: 'Picket',
      client_url: 'https://picket.example',
      links: [{ href: 'https://picket.example/v1/incidents/a', text: 'PicketStraggler' }],
    },
  );
  assert.equal(trigger.payload.custom_details.firing[0].cost, '12.35 ms a step (15 %), 96 GPU-seconds so far');
  assert.match(trigger.dedup_key, /^[0-9a-f]{64}$/);

  const worse = told('pagerduty', [{ ...ends(a), event: 'escalated', incident: { ...a, severity: 'critical' } }]).body;
  assert.deepEqual([worse.event_action, worse.payload.severity], ['trigger', 'critical']);
  const end = told('pagerduty', [ends(a)]).body;
  assert.deepEqual([end.event_action, end.payload], ['resolve', undefined]);
  assert.deepEqual([worse.dedup_key, end.dedup_key], [trigger.dedup_key, trigger.dedup_key]);
  assert.notEqual(told('pagerduty', [fires(a)], groupOf('b')).body.dedup_key, trigger.dedup_key);
  assert.equal(
    told('pagerduty', [ends(a), fires(newIncident('b'))]).body.event_action,
    'trigger',
    'something fires still',
  );
});

test('PagerDuty: summary and details stay within what it takes', () => {
  const long = newIncident('a', { summary: 'x'.repeat(5000) });
  assert.equal(told('pagerduty', [fires(long)]).body.payload.summary.length, 1024);
  const many = Array.from({ length: 200 }, (_, i) => fires(newIncident(`i${i}`, { summary: 'y'.repeat(4000) })));
  const { text, body } = told('pagerduty', many, groupOf('a'), 7);
  assert.ok(text.length < 512_000, `${text.length} characters`);
  assert.equal(body.payload.custom_details.num_firing, 207);
  assert.equal(body.payload.summary, '207 alerts firing: PicketStraggler');
});

interface Block {
  readonly type: string;
  readonly text?: { readonly type: string; readonly text: string };
  readonly elements?: readonly { readonly text: string }[];
}

test('Slack: blocks that name alerts, link to them and escape what Slack would take for markup', () => {
  const rule = { id: 'r', commit: null, annotations: { runbook_url: 'https://wiki.example/a?b=1&c=2' } };
  const a = newIncident('a', { summary: 'a<b> & <!channel>', rule, subject: { hosts: ['h1'] } });
  const { blocks, text } = told('slack', [fires(a)]).body as { blocks: Block[]; text: string };
  assert.deepEqual(
    blocks.map(({ type }) => type),
    ['header', 'section', 'context'],
  );
  assert.equal(blocks[0]?.text?.text, '🔥 PicketStraggler (llama): a<b> & <!channel>');
  assert.equal(
    blocks[1]?.text?.text,
    '*warning* <https://picket.example/v1/incidents/a|a&lt;b&gt; &amp; &lt;!channel&gt;>\njob llama, hosts h1, ranks 3\n' +
      '12.35 ms a step (15 %), 96 GPU-seconds so far\nNot load_imbalance: tokens differ by 0.1 %\n' +
      '<https://wiki.example/a?b=1&amp;c=2|Runbook>',
  );
  assert.equal(blocks[2]?.elements?.[0]?.text, 'Picket to ops: first notification');
  assert.doesNotMatch(text, /<!channel>/);
  const end = told('slack', [ends(a)]).body as { blocks: Block[] };
  assert.match(end.blocks[0]?.text?.text ?? '', /^✅ /);
  assert.match(end.blocks[1]?.text?.text ?? '', /^\*Resolved\* /);
});

test('Slack: no more and no longer blocks than it takes, and the rest is counted', () => {
  const many = Array.from({ length: 200 }, (_, i) => fires(newIncident(`i${i}`, { summary: '&'.repeat(5000) })));
  const { blocks } = told('slack', many, groupOf('a'), 3).body as { blocks: Block[] };
  assert.equal(blocks.length, 50);
  assert.ok(blocks.every(({ type, text }) => (text?.text.length ?? 0) <= (type === 'header' ? 150 : 3000)));
  assert.equal(blocks.at(-1)?.elements?.[0]?.text, 'Picket to ops: first notification, and 155 more');
});

test('Alertmanager: what fires ends by itself four sendings from now, what is over when it was', () => {
  const a = newIncident('a');
  const b = newIncident('b');
  const { url, body } = told('alertmanager', [fires(a), ends(b)]);
  assert.equal(url, 'https://ops.example/hook/api/v2/alerts');
  assert.deepEqual(
    body.map((alert: Record<string, unknown>) => [Object.keys(alert).sort().join(), alert.startsAt, alert.endsAt]),
    [
      ['annotations,endsAt,generatorURL,labels,startsAt', a.started_at, '2026-03-01T12:04:00.000Z'],
      ['annotations,endsAt,generatorURL,labels,startsAt', b.started_at, '2026-03-01T11:00:00.000Z'],
    ],
  );
  // Steps by a clock ahead of ours.
  const ahead = newIncident('a', { started_at: '2026-03-01T13:00:00.5Z' });
  const early = told('alertmanager', [{ ...ends(ahead), incident: resolved(ahead, '2026-03-01T13:30:00Z') }]).body[0];
  assert.ok(Date.parse(early.endsAt) >= Date.parse(early.startsAt), 'it ends before it starts');
});

test('text is cut between characters', () => {
  assert.equal(clipped('abc', 3), 'abc');
  assert.equal(clipped('abcd', 3), 'ab…');
  assert.equal(clipped('a🔥bc', 3), 'a…');
});
