import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { pino } from 'pino';
import { systemClock } from '../../../detector/notify/clock.js';
import type { Receiver } from '../../../detector/notify/config.js';
import type { AlertmanagerBody } from '../../../detector/notify/formats/webhook.js';
import { fingerprintOf, labelsOf } from '../../../detector/notify/labels.js';
import { notificationsFor } from '../../../detector/notify/notifications.js';
import { Sender } from '../../../detector/notify/sender.js';
import type { Incident } from '../../../protocol/incident.js';
import { DebianServer, needsDebian, runDebian } from '../../support/debian.js';
import { freePort } from '../../support/kafka-broker.js';
import { commitTo, newIncident, resolved, temporaryFolder, temporaryStore } from '../store/support.js';
import { receiverOf, sending, startHook, until } from './support.js';

/** Programs of others, out of Debian's packages. */

/** A sender by the real clock; `change` has it tell what an incident became. */
function startSending(t: TestContext, receiver: Receiver) {
  const { store } = temporaryStore(t);
  const wiring = sending(store, [receiver]);
  const facts = {
    clock: systemClock,
    random: Math.random,
    externalUrl: 'http://picket.example',
    log: pino({ enabled: false }),
  };
  const sender = new Sender({ ...wiring, ...facts });
  sender.start();
  t.after(() => sender.close(0));
  const change = (before: Incident | undefined, after: Incident): void => {
    commitTo(store, { incidents: [after], notifications: notificationsFor(before, after, wiring.routes) });
    sender.wake();
  };
  return { store, sender, change };
}

interface GettableAlert {
  readonly labels: Record<string, string>;
  readonly annotations: Record<string, string>;
  readonly fingerprint: string;
  readonly updatedAt: string;
  readonly generatorURL: string;
  readonly status: { readonly state: string };
}

/** Debian's Alertmanager, which tells a webhook of what it is told; groups by job, and at once. */
async function startAlertmanager(t: TestContext, port: number) {
  const hook = await startHook(t, () => ({ status: 200 }));
  const folder = temporaryFolder(t);
  const config = {
    route: { receiver: 'hook', group_by: ['job'], group_wait: '10ms', group_interval: '200ms', repeat_interval: '1h' },
    receivers: [{ name: 'hook', webhook_configs: [{ url: hook.url, send_resolved: true }] }],
  };
  writeFileSync(join(folder, 'alertmanager.yml'), JSON.stringify(config));
  const server = new DebianServer(t, 'prometheus-alertmanager', [
    `--config.file=${join(folder, 'alertmanager.yml')}`,
    `--storage.path=${join(folder, 'data')}`,
    `--web.listen-address=127.0.0.1:${port}`,
    '--cluster.listen-address=',
  ]);
  const url = `http://127.0.0.1:${port}`;
  const get = async <T>(path: string): Promise<T> => {
    const response = await fetch(`${url}/api/v2/${path}`);
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
    return (await response.json()) as T;
  };
  await server.until(() => get('status'), 'Alertmanager');
  const told = () => hook.requests.map(({ body }) => JSON.parse(body) as AlertmanagerBody);
  return { url, server, get, told, alerts: () => get<GettableAlert[]>('alerts') };
}

test('Alertmanager takes our alerts: shows, groups and resolves them', {
  ...needsDebian,
  timeout: 120_000,
}, async (t) => {
  const alertmanager = await startAlertmanager(t, await freePort());
  const { server, alerts, get, told } = alertmanager;
  // Each sending lasts for 4 s.
  const { change, sender } = startSending(
    t,
    receiverOf('am', alertmanager, { format: 'alertmanager', resendMs: 1000 }),
  );
  const [a, b, other] = [newIncident('a'), newIncident('b'), newIncident('c', { subject: { job: 'other' } })] as [
    Incident,
    Incident,
    Incident,
  ];
  for (const incident of [a, b, other]) change(undefined, incident);

  const shown = await server.until(async () => ((await alerts()).length === 3 ? alerts() : undefined), 'three alerts');
  const first = shown.find(({ labels }) => labels.incident_id === 'a');
  assert.deepEqual(first?.labels, labelsOf(a, 'warning'));
  assert.equal(first?.fingerprint, fingerprintOf(labelsOf(a, 'warning')), 'its fingerprint is ours');
  assert.equal(first?.annotations.summary, a.summary);
  assert.equal(first?.generatorURL, 'http://picket.example/v1/incidents/a');
  const groups = await get<{ labels: object; alerts: GettableAlert[] }[]>('alerts/groups');
  assert.deepEqual(
    groups.map(({ labels, alerts }) => [labels, alerts.map((alert) => alert.labels.incident_id).sort()]),
    [
      [{ job: 'llama' }, ['a', 'b']],
      [{ job: 'other' }, ['c']],
    ],
  );

  const updates = new Set<string>();
  await server.until(async () => {
    const [alert] = (await alerts()).filter(({ labels }) => labels.incident_id === 'a');
    assert.equal(alert?.status.state, 'active', 'it has ended by itself');
    updates.add(alert?.updatedAt as string);
    return updates.size >= 6 || undefined;
  }, 'sendings over more than the time that one lasts');
  assert.ok(told().every(({ alerts }) => alerts.every(({ status }) => status === 'firing')));

  const worse: Incident = { ...a, severity: 'critical' };
  change(a, worse);
  await server.until(async () => {
    const severities = (await alerts())
      .filter(({ labels }) => labels.incident_id === 'a')
      .map(({ labels }) => labels.severity);
    return severities.join() === 'critical' || undefined;
  }, 'the alert told before to end as it rises');

  change(worse, resolved(worse));
  change(b, resolved(b));
  const ended = (job: string) =>
    told().find(({ status, groupLabels }) => status === 'resolved' && groupLabels.job === job);
  await until(() => ended('llama') !== undefined, 'Alertmanager to tell of the end');
  assert.ok(!ended('other'), 'the other group fires on');

  // A detector that is gone tells nothing more: its alerts end by themselves.
  await sender.close(0);
  await until(() => ended('other') !== undefined, 'the alert to end by itself');
  assert.deepEqual(await alerts(), []);
});

test('an Alertmanager that has lost its memory is told again of what fires', {
  ...needsDebian,
  timeout: 60_000,
}, async (t) => {
  const port = await freePort();
  const first = await startAlertmanager(t, port);
  const { change, store } = startSending(t, receiverOf('am', first, { format: 'alertmanager', resendMs: 300 }));
  const [a, b] = [newIncident('a'), newIncident('b')];
  change(undefined, a);
  change(undefined, b);
  change(b, resolved(b));
  await until(() => store.outbox.counts().delivered === 3, 'the deliveries');
  await first.server.stop();
  const { server, alerts } = await startAlertmanager(t, port);
  const [alert, ...others] = await server.until(
    async () => ((await alerts()).length > 0 ? alerts() : undefined),
    'the alert',
  );
  assert.deepEqual([alert?.labels.incident_id, others], ['a', []]);
});

test("a webhook body is what Alertmanager's own templates take", { ...needsDebian, timeout: 60_000 }, async (t) => {
  const hook = await startHook(t, () => ({ status: 200 }));
  const { change } = startSending(t, receiverOf('ops', hook));
  const a = newIncident('a');
  const worse: Incident = { ...a, severity: 'critical' };
  change(undefined, a);
  change(a, worse);
  await until(() => hook.requests.length === 2, 'both messages');
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'body.json'), hook.requests[1]?.body as string);
  writeFileSync(
    join(folder, 'picket.tmpl'),
    '{{ define "picket" }}{{ .Status }} {{ .Receiver }} {{ .GroupLabels.alertname }} {{ .CommonLabels.job }} ' +
      '{{ .ExternalURL }}{{ range .Alerts.Firing }} | {{ .Labels.severity }} {{ .Annotations.summary }} ' +
      '{{ .StartsAt.Unix }} {{ .EndsAt.IsZero }} {{ .Fingerprint }}{{ end }}' +
      '{{ range .Alerts.Resolved }} | {{ .Labels.severity }} {{ .EndsAt.Unix }}{{ end }}{{ end }}',
  );
  const { status, output } = runDebian('amtool', [
    ...['template', 'render', `--template.glob=${folder}/*.tmpl`, '--template.text={{ template "picket" . }}'],
    `--template.data=${folder}/body.json`,
  ]);
  assert.equal(status, 0, output);
  const start = Math.floor(Date.parse(a.started_at) / 1000);
  const end = Date.parse('2026-03-01T10:00:08Z') / 1000;
  const fingerprint = fingerprintOf(labelsOf(worse, 'critical'));
  assert.equal(
    output.trim(),
    `firing ops PicketStraggler llama http://picket.example | critical ${a.summary} ${start} true ${fingerprint} | warning ${end}`,
  );
});

test('a receiver that was written for Alertmanager relays our webhook', {
  ...needsDebian,
  timeout: 60_000,
}, async (t) => {
  const irc = await startIrc(t);
  const folder = temporaryFolder(t);
  const port = await freePort();
  const config = {
    ...{ http_host: '127.0.0.1', http_port: port, irc_host: '127.0.0.1', irc_port: irc.port, irc_use_ssl: false },
    ...{ irc_nickname: 'relay', irc_channels: [{ name: '#gpu' }] },
    msg_template: '{{ .Labels.alertname }} of {{ .Labels.job }} is {{ .Status }}: {{ .Annotations.summary }}',
  };
  writeFileSync(join(folder, 'relay.yml'), JSON.stringify(config));
  const relay = new DebianServer(t, 'alertmanager-irc-relay', ['-config', join(folder, 'relay.yml')]);
  await relay.until(async () => irc.joined() || undefined, 'the relay to join');
  const { change } = startSending(t, receiverOf('irc', { url: `http://127.0.0.1:${port}/gpu` }));
  const a = newIncident('a');
  change(undefined, a);
  change(a, resolved(a));
  const said = await relay.until(async () => (irc.said.length >= 2 ? irc.said : undefined), 'both messages');
  assert.deepEqual(said, [
    `PicketStraggler of llama is firing: ${a.summary}`,
    `PicketStraggler of llama is resolved: ${a.summary}`,
  ]);
});

/** As much of an IRC server as the relay needs. */
async function startIrc(t: TestContext) {
  const said: string[] = [];
  let joined = false;
  const server = createServer((socket) => {
    const send = (line: string) => socket.write(`${line}\r\n`);
    socket.on('error', () => undefined);
    createInterface(socket).on('line', (line) => {
      const [command = '', argument = ''] = line.split(' ');
      if (command === 'USER') send(':irc 001 relay :Welcome');
      else if (command === 'PING') send(`:irc PONG irc ${argument}`);
      else if (command === 'JOIN') {
        send(`:relay!relay@host JOIN ${argument}`);
        joined ||= argument.startsWith('#gpu');
      } else if (command === 'NOTICE' && argument === '#gpu') said.push(line.slice(line.indexOf(' :') + 2));
    });
    t.after(() => socket.destroy());
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => server.close());
  return { port: (server.address() as AddressInfo).port, said, joined: () => joined };
}
