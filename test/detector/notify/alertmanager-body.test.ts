import assert from 'node:assert/strict';
import { test } from 'node:test';
import { alertmanagerBody } from '../../../detector/notify/alertmanager-body.js';
import type { Notification } from '../../../detector/store/store.js';
import type { Severity } from '../../../protocol/incident.js';
import { newIncident, newNotification, resolved } from '../store/support.js';

const bodyOf = (notification: Partial<Notification>) =>
  alertmanagerBody(
    { ...newNotification('n', newIncident('a')), toldSeverity: null, attempts: 0, ...notification },
    'https://picket.example',
  );

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
  const { alerts, ...body } = bodyOf({});
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
    groupKey: '{}:{alertname="PicketStraggler", incident_id="a"}',
    truncatedAlerts: 0,
  });
});

const alertsOf = (notification: Partial<Notification>) =>
  bodyOf(notification).alerts.map(({ status, labels, endsAt }) => [status, labels.severity, endsAt]);

test('when the severity rises the alert told before ends', () => {
  const critical = newIncident('a', { severity: 'critical' });
  const body = bodyOf({ event: 'escalated', incident: critical, toldSeverity: 'warning' });
  assert.deepEqual([body.status, body.notification_reason], ['firing', 'new alerts added']);
  assert.deepEqual(alertsOf({ event: 'escalated', incident: critical, toldSeverity: 'warning' }), [
    ['firing', 'critical', '0001-01-01T00:00:00Z'],
    ['resolved', 'warning', '2026-03-01T10:00:08Z'],
  ]);
  assert.equal(body.commonLabels.severity, undefined);
  assert.equal(body.commonLabels.job, 'llama');
  assert.deepEqual(alertsOf({ event: 'escalated', incident: critical, toldSeverity: 'critical' }), [
    ['firing', 'critical', '0001-01-01T00:00:00Z'],
  ]);
});

test('the end is told with the fingerprint of the alert that fires', () => {
  for (const severity of ['warning', 'critical'] as Severity[]) {
    const firing = bodyOf({ incident: newIncident('a', { severity }) });
    const eased = resolved(newIncident('a', { severity: 'info' }));
    const end = bodyOf({ event: 'resolved', incident: eased, toldSeverity: severity });
    assert.deepEqual([end.status, end.notification_reason], ['resolved', 'all alerts resolved']);
    assert.equal(end.groupKey, firing.groupKey);
    assert.deepEqual(
      end.alerts.map(({ fingerprint, status, endsAt }) => [fingerprint, status, endsAt]),
      [[firing.alerts[0]?.fingerprint, 'resolved', '2026-03-01T11:00:00Z']],
    );
  }
});

test('what is absent makes no annotation', () => {
  const [alert] = bodyOf({ incident: newIncident('a', { runner_up: null }) }).alerts;
  assert.deepEqual(Object.keys(alert?.annotations ?? {}), ['summary', 'description', 'cost']);
  const [serving] = bodyOf({ incident: newIncident('a', { subject: { requests: ['r1', 'r2'] } }) }).alerts;
  assert.equal(serving?.annotations.requests, 'r1,r2');
});

test("a rule's labels and annotations are sent; its summary takes the place of ours, its labels do not", () => {
  const rule = {
    id: 'mine',
    commit: 'abc',
    labels: { team: 'gpu', severity: 'page', empty: '' },
    annotations: { summary: 'rank 3 again', runbook_url: 'https://wiki.example/straggler' },
  };
  const [alert] = bodyOf({ incident: newIncident('a', { rule }) }).alerts;
  assert.deepEqual([alert?.labels.team, alert?.labels.severity, alert?.labels.rule], ['gpu', 'warning', 'mine']);
  assert.ok(!('empty' in (alert?.labels ?? {})), 'an empty label is no label');
  assert.equal(alert?.annotations.summary, 'rank 3 again');
  assert.equal(alert?.annotations.runbook_url, 'https://wiki.example/straggler');
  assert.match(alert?.annotations.cost ?? '', /ms a step/);
});
