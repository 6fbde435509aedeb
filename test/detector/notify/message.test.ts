import assert from 'node:assert/strict';
import { test } from 'node:test';
import { alertmanagerBody } from '../../../detector/notify/formats/webhook.js';
import { fingerprintOf, labelsOf } from '../../../detector/notify/labels.js';
import { alertMessage } from '../../../detector/notify/message.js';
import type { Message, MessageEntry } from '../../../detector/store/outbox.js';
import type { Incident, Severity } from '../../../protocol/incident.js';
import { groupOf, newIncident, resolved } from '../store/support.js';

const firing = (incident: Incident, told: Severity | null = null): MessageEntry => ({
  ...{ seq: 1, event: told ? 'escalated' : 'opened', incident, told: told && labelsOf(incident, told) },
});
const over = (incident: Incident, told: Severity | null): MessageEntry => ({
  ...{ seq: 2, event: 'resolved', incident: resolved(incident), told: told && labelsOf(incident, told) },
});
const tell = (entries: MessageEntry[], facts: Partial<Message> = {}, sendResolved = true) => {
  const given = { id: 'n', receiver: 'ops', attempts: 0, reminder: false, truncated: 0, group: groupOf('a'), entries };
  return alertMessage({ ...given, ...facts }, 'https://picket.example', sendResolved);
};
const bodyOf = (...entries: MessageEntry[]) => alertmanagerBody(tell(entries).told, 'https://picket.example');

test('the first message has every field of version 4', () => {
  const labels = {
    alertname: 'PicketStraggler',
    kind: 'straggler',
    severity: 'warning',
    cause: 'compute',
    incident_id: 'a',
    rule: 'straggler',
    job: 'llama',
    run: '1',
    ranks: '3',
  };
  const annotations = {
    summary: 'rank 3 computes slower than its peers',
    description:
      'rank 3 computes slower than its peers. onset step 250, confidence 0.97, slowdown=1.235, peers=7, steps=[250,251]',
    cost: '12.35 ms a step (15 %), 96 GPU-seconds so far',
    runner_up: 'load_imbalance: tokens differ by 0.1 %',
  };
  const { alerts, ...body } = bodyOf(firing(newIncident('a')));
  const [{ fingerprint, ...alert }] = alerts as [(typeof alerts)[0]];
  assert.match(fingerprint, /^[0-9a-f]{16}$/);
  assert.equal(alerts.length, 1);
  assert.deepEqual(alert, {
    status: 'firing',
    labels,
    annotations,
    startsAt: '2026-03-01T10:00:00.123456789Z',
    endsAt: '0001-01-01T00:00:00Z',
    generatorURL: 'https://picket.example/v1/incidents/a',
  });
  assert.deepEqual(body, {
    receiver: 'ops',
    status: 'firing',
    notification_reason: 'first notification',
    groupLabels: { alertname: 'PicketStraggler', incident_id: 'a' },
    commonLabels: labels,
    commonAnnotations: annotations,
    externalURL: 'https://picket.example',
    version: '4',
    groupKey: '{}:{incident_id="a"}',
    truncatedAlerts: 0,
  });
});

const shown = ({ alerts }: ReturnType<typeof bodyOf>) =>
  alerts.map(({ status, labels, endsAt }) => [status, labels.severity, endsAt]);

test('when the severity rises the alert told before ends', () => {
  const critical = newIncident('a', { severity: 'critical' });
  const body = bodyOf(firing(critical, 'warning'));
  assert.deepEqual([body.status, body.notification_reason], ['firing', 'new alerts added']);
  assert.deepEqual(shown(body), [
    ['firing', 'critical', '0001-01-01T00:00:00Z'],
    ['resolved', 'warning', '2026-03-01T10:00:08Z'],
  ]);
  assert.equal(body.commonLabels.severity, undefined);
  assert.equal(body.commonLabels.job, 'llama');
  assert.deepEqual(shown(bodyOf(firing(critical, 'critical'))), [['firing', 'critical', '0001-01-01T00:00:00Z']]);
});

test('the end is told with the labels of the alert that fires, whatever its severity and its rule are by then', () => {
  for (const severity of ['warning', 'critical'] as Severity[]) {
    const began = firing(newIncident('a', { severity }));
    const told = labelsOf(began.incident, severity);
    const rule = { id: 'other', commit: null, labels: { team: 'gpu' } };
    const ended = { ...over(newIncident('a', { severity: 'info', rule }), null), told };
    const end = bodyOf(ended);
    assert.deepEqual([end.status, end.notification_reason], ['resolved', 'all alerts resolved']);
    assert.deepEqual(
      end.alerts.map(({ fingerprint, status, endsAt }) => [fingerprint, status, endsAt]),
      [[bodyOf(began).alerts[0]?.fingerprint, 'resolved', '2026-03-01T11:00:00Z']],
    );
  }
});

test('what was never told is not ended, and who does not want ends gets none', () => {
  const a = newIncident('a');
  assert.deepEqual(tell([over(a, null)]).told.alerts, []);
  assert.deepEqual(tell([over(a, 'warning')], {}, false).told.alerts, []);
  assert.deepEqual(tell([over(a, 'warning')], {}, false).learned, [{ incident: 'a', seq: 2, labels: null }]);
});

test('a message of several says why it comes, and what its receiver knows then', () => {
  const [a, b, c] = ['a', 'b', 'c'].map((id) => newIncident(id)) as [Incident, Incident, Incident];
  const reason = (...entries: MessageEntry[]) => tell(entries).told.reason;
  const known = { ...firing(b, 'warning'), event: 'opened' as const };
  assert.equal(reason(firing(a), firing(b)), 'first notification');
  assert.equal(reason(firing(a), known), 'new alerts added');
  assert.equal(reason(over(a, 'warning'), known), 'some alerts resolved');
  assert.equal(reason(over(a, 'warning'), over(b, 'warning')), 'all alerts resolved');
  assert.equal(tell([known], { reminder: true }).told.reason, 'repeat interval elapsed');
  const { told, learned } = tell([over(a, 'warning'), firing(b), over(c, null)], { truncated: 3 });
  assert.deepEqual(
    told.alerts.map(({ status, labels }) => `${status} ${labels.incident_id}`),
    ['firing b', 'resolved a'],
  );
  assert.deepEqual([told.status, alertmanagerBody(told, '').truncatedAlerts], ['firing', 3]);
  assert.deepEqual(
    learned.map(({ incident, labels }) => [incident, labels && fingerprintOf(labels)]),
    [
      ['a', null],
      ['b', fingerprintOf(labelsOf(b, 'warning'))],
      ['c', null],
    ],
  );
});

test('what is absent makes no annotation', () => {
  const [alert] = bodyOf(firing(newIncident('a', { runner_up: null }))).alerts;
  assert.deepEqual(Object.keys(alert?.annotations ?? {}), ['summary', 'description', 'cost']);
  const [serving] = bodyOf(firing(newIncident('a', { subject: { requests: ['r1', 'r2'] } }))).alerts;
  assert.equal(serving?.annotations.requests, 'r1,r2');
});

test("a rule's labels and annotations are sent; its summary takes the place of ours, its labels do not", () => {
  const rule = {
    id: 'mine',
    commit: 'abc',
    labels: { team: 'gpu', severity: 'page', empty: '' },
    annotations: { summary: 'rank 3 again', runbook_url: 'https://wiki.example/straggler' },
  };
  const [alert] = bodyOf(firing(newIncident('a', { rule }))).alerts;
  assert.deepEqual([alert?.labels.team, alert?.labels.severity, alert?.labels.rule], ['gpu', 'warning', 'mine']);
  assert.ok(!('empty' in (alert?.labels ?? {})), 'an empty label is no label');
  assert.equal(alert?.annotations.summary, 'rank 3 again');
  assert.equal(alert?.annotations.runbook_url, 'https://wiki.example/straggler');
  assert.match(alert?.annotations.cost ?? '', /ms a step/);
});
