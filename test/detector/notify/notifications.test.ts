import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isRouted, notificationsFor, type ReceiverPolicy } from '../../../detector/notify/notifications.js';
import { RouteConfig, routesOf } from '../../../detector/notify/route.js';
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
  reopened: (incident.reopened ?? 0) + 1,
  timeline: [...incident.timeline, { at: '2026-03-01T12:00:00Z', step: 500, event: 'reopened', note: '' }],
});
const told = (before: Incident | undefined, after: Incident) =>
  notificationsFor(before, after, routesOf([], [OPS, LOG, PAGER])).map(({ receiver, event }) => `${receiver} ${event}`);

test('who hears of what', () => {
  const acknowledged: Incident = { ...at('warning'), status: 'acknowledged' };
  const cases: [string, Incident | undefined, Incident, string[]][] = [
    ['opens below what pages', undefined, at('info'), ['log opened']],
    ['opens', undefined, at('warning'), ['ops opened', 'log opened']],
    ['opens as part of a storm', undefined, { ...at('critical'), part_of: 's' }, []],
    ['rises as part of a storm', at('info'), { ...at('critical'), part_of: 's' }, []],
    [
      ...(['ends as part of a storm', at('warning'), resolved({ ...at('warning'), part_of: 's' })] as const),
      ['ops resolved', 'log resolved', 'pager resolved'],
    ],
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
    ['ends', at('warning'), resolved(at('warning')), ['ops resolved', 'log resolved', 'pager resolved']],
    ['ends and is written again', resolved(at('warning')), resolved(at('warning')), []],
    ['is over when first seen', undefined, resolved(at('warning')), []],
    ['comes back', resolved(at('warning')), reopened(resolved(at('warning'))), ['ops opened', 'log opened']],
  ];
  for (const [name, before, after, expected] of cases) assert.deepEqual(told(before, after), expected, name);
});

test('ids are constant for one change and receiver, and distinct otherwise', () => {
  const ids = (before: Incident | undefined, after: Incident) =>
    notificationsFor(before, after, routesOf([], [OPS, LOG])).map(({ id }) => id);
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
  const [first] = notificationsFor(at('warning'), at('critical'), routesOf([], [OPS]));
  const [again] = notificationsFor(at('info'), at('critical'), routesOf([], [OPS]));
  assert.equal(again?.id, first?.id);
});

test('a receiver hears of nothing below its severity but the end', () => {
  for (const severity of SEVERITIES)
    for (const minSeverity of SEVERITIES) {
      const heard = notificationsFor(undefined, at(severity), routesOf([], [{ ...OPS, minSeverity }])).length === 1;
      assert.equal(heard, SEVERITIES.indexOf(severity) >= SEVERITIES.indexOf(minSeverity));
    }
});

const ALL = [OPS, LOG, PAGER].map((policy) => ({ ...policy, minSeverity: 'info' as const }));
const routed = (incident: Incident, configs: object[]) =>
  notificationsFor(
    undefined,
    incident,
    routesOf(
      configs.map((each) => RouteConfig.parse(each)),
      ALL,
    ),
  )
    .filter(({ group }) => group)
    .map(({ receiver, group }) => `${receiver} ${group?.key}`);

test('the first route that fits decides, and leads on where it says so', () => {
  const routes = [
    { receiver: 'pager', match: { severity: 'critical' }, continue: true },
    { receiver: 'ops', match: { job: ['llama*', '!llama-dev'], kind: 'straggler' }, group_by: ['job', 'kind', 'nic'] },
    { receiver: 'log' },
    { receiver: 'pager' },
  ];
  const grouped = '{}/{job="llama*|!llama-dev", kind="straggler"}:{job="llama", kind="straggler"}';
  assert.deepEqual(routed(at('warning'), routes), [`ops ${grouped}`]);
  assert.deepEqual(routed(at('critical'), routes), [
    'pager {}/{severity="critical"}:{incident_id="a"}',
    `ops ${grouped}`,
  ]);
  const dev = newIncident('a', { subject: { job: 'llama-dev' } });
  assert.deepEqual(routed(dev, routes), ['log {}:{incident_id="a"}']);
  assert.deepEqual(routed(dev, routes.slice(0, 2)), []);
  const parsed = routes.map((each) => RouteConfig.parse(each));
  assert.deepEqual(
    [2, 3].map((count) => isRouted(dev, routesOf(parsed.slice(0, count), ALL))),
    [false, true],
  );
});

test("a route matches labels of the incident and its rule, and every one of the incident's hosts", () => {
  const rule = { id: 'mine', commit: null, labels: { team: 'gpu' } };
  const incident = newIncident('a', { rule, subject: { hosts: ['a1', 'a2'] } });
  const fits = (match: object) => routed(incident, [{ receiver: 'ops', match }]).length === 1;
  for (const match of [
    { team: 'gpu' },
    { rule: 'mine' },
    { host: 'a*' },
    { host: ['a1', 'a2'] },
    { nic: '*' },
    { nic: '!m*' },
    {},
  ])
    assert.ok(fits(match), JSON.stringify(match));
  for (const match of [{ team: 'net' }, { host: 'a1' }, { nic: 'm*' }, { team: 'gpu', host: 'b*' }, { nothing: '?*' }])
    assert.ok(!fits(match), JSON.stringify(match));
});
