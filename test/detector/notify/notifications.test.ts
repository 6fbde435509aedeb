import assert from 'node:assert/strict';
import { test } from 'node:test';
import { notificationsFor, type ReceiverPolicy } from '../../../detector/notify/notifications.js';
import { type Incident, SEVERITIES, type Severity } from '../../../protocol/incident.js';
import { newIncident, resolved } from '../store/support.js';

const OPS: ReceiverPolicy = { name: 'ops', minSeverity: 'warning', sendResolved: true };
const LOG: ReceiverPolicy = { name: 'log', minSeverity: 'info', sendResolved: false };
const PAGER: ReceiverPolicy = { name: 'pager', minSeverity: 'critical', sendResolved: true };
const at = (severity: Severity): Incident => newIncident('a', { severity });
const reopened = (incident: Incident): Incident => ({
  ...incident,
  status: 'open',
  resolved_at: null,
  timeline: [...incident.timeline, { at: '2026-03-01T12:00:00Z', step: 500, event: 'reopened', note: '' }],
});
const told = (before: Incident | undefined, after: Incident) =>
  notificationsFor(before, after, [OPS, LOG, PAGER]).map(({ receiver, event }) => `${receiver} ${event}`);

test('who hears of what', () => {
  const acknowledged: Incident = { ...at('warning'), status: 'acknowledged' };
  const cases: [string, Incident | undefined, Incident, string[]][] = [
    ['opens below what pages', undefined, at('info'), ['log opened']],
    ['opens', undefined, at('warning'), ['ops opened', 'log opened']],
    ['opens at the worst', undefined, at('critical'), ['ops opened', 'log opened', 'pager opened']],
    ['stays', at('warning'), { ...at('warning'), last_step: 900 }, []],
    ['rises', at('warning'), at('critical'), ['ops escalated', 'log escalated', 'pager escalated']],
    ['rises to what pages', at('info'), at('warning'), ['ops escalated', 'log escalated']],
    ['eases', at('critical'), at('warning'), []],
    ['is acknowledged', at('warning'), acknowledged, []],
    [
      'rises though acknowledged',
      acknowledged,
      { ...acknowledged, severity: 'critical' },
      ['ops escalated', 'log escalated', 'pager escalated'],
    ],
    ['ends', at('warning'), resolved(at('warning')), ['ops resolved', 'pager resolved']],
    ['ends and is written again', resolved(at('warning')), resolved(at('warning')), []],
    ['is over when first seen', undefined, resolved(at('warning')), []],
    ['comes back', resolved(at('warning')), reopened(resolved(at('warning'))), ['ops opened', 'log opened']],
  ];
  for (const [name, before, after, expected] of cases) assert.deepEqual(told(before, after), expected, name);
});

test('ids are constant for one change and receiver, and distinct otherwise', () => {
  const ids = (before: Incident | undefined, after: Incident) =>
    notificationsFor(before, after, [OPS, { ...LOG, sendResolved: true }]).map(({ id }) => id);
  const first = resolved(at('warning'));
  const second = reopened(first);
  const changes: [Incident | undefined, Incident][] = [
    [undefined, at('warning')],
    [at('warning'), at('critical')],
    [at('info'), at('warning')],
    [at('warning'), first],
    [first, second],
    [second, resolved(second)],
    [undefined, newIncident('b')],
  ];
  const all = changes.flatMap(([before, after]) => ids(before, after));
  assert.equal(new Set(all).size, all.length);
  for (const id of all) assert.match(id, /^[0-9a-f]{32}$/);

  const later = { ...at('warning'), last_step: 999, evidence: { slowdown: 9 }, detected_at: '2026-04-01T00:00:00Z' };
  assert.deepEqual(ids(undefined, later), ids(undefined, at('warning')));
});

test('rising to one severity again is the same notification', () => {
  const [first] = notificationsFor(at('warning'), at('critical'), [OPS]);
  const [again] = notificationsFor(at('info'), at('critical'), [OPS]);
  assert.equal(again?.id, first?.id);
});

test('a receiver hears of nothing below its severity but the end', () => {
  for (const severity of SEVERITIES)
    for (const minSeverity of SEVERITIES) {
      const heard = notificationsFor(undefined, at(severity), [{ ...OPS, minSeverity }]).length === 1;
      assert.equal(heard, SEVERITIES.indexOf(severity) >= SEVERITIES.indexOf(minSeverity));
    }
});
