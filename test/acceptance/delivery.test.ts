import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { AlertmanagerBody } from '../../detector/notify/formats/webhook.js';
import { temporaryFolder } from '../detector/store/support.js';
import { mulberry32 } from '../support/trace.js';
import { CHANGES, MAX_ATTEMPTS, type Plan } from './delivery-plan.js';

const PROGRAM = fileURLToPath(new URL('./delivery-program.js', import.meta.url));
const KILLS = 25;

interface Request {
  readonly receiver: string;
  readonly id: string;
  readonly body: string;
  readonly accepted: boolean;
}

/** Receivers on 127.0.0.1 that fail in every way until they are healed. */
async function startReceivers(t: TestContext, forbiddenUrl: string) {
  const random = mulberry32(11);
  const state = { healed: false, requests: [] as Request[], onRequest: () => {} };
  const failures: ((response: ServerResponse) => unknown)[] = [
    (response) => response.writeHead(500).end(),
    (response) => response.writeHead(503, { 'retry-after': '0' }).end(),
    (response) => response.writeHead(429, { 'retry-after': '0' }).end(),
    (response) => response.socket?.destroy(),
    (response) => response.writeHead(200, { 'content-length': '10' }).flushHeaders(),
    () => undefined,
  ];
  const answer = (receiver: string, response: ServerResponse): boolean => {
    if (receiver === 'moved') response.writeHead(307, { location: forbiddenUrl }).end();
    else if (!state.healed && receiver === 'gone') response.writeHead(410).end();
    else if (!state.healed && receiver === 'flaky' && random() < 0.6)
      failures[Math.floor(random() * failures.length)]?.(response);
    else {
      response.writeHead(204).end();
      return true;
    }
    return response.statusCode === 200 && response.headersSent;
  };
  const server = createServer(async (request, response) => {
    let body = '';
    request.on('error', () => undefined);
    for await (const chunk of request.setEncoding('utf8')) body += chunk;
    const receiver = request.url?.slice(1) as string;
    const accepted = answer(receiver, response);
    state.requests.push({ receiver, id: request.headers['webhook-id'] as string, body, accepted });
    state.onRequest();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { state, port: (server.address() as AddressInfo).port };
}

/** Counts who connects where nobody may. */
async function startForbidden(t: TestContext, address: string, port = 0) {
  const seen = { connections: 0, port: 0 };
  const server = createTcpServer((socket) => {
    seen.connections++;
    socket.destroy();
  });
  await once(server.listen(port, address), 'listening');
  t.after(() => server.close());
  seen.port = (server.address() as AddressInfo).port;
  return seen;
}

const start = (plan: Plan): ChildProcess =>
  spawn(process.execPath, [PROGRAM, JSON.stringify(plan)], { stdio: ['ignore', 'inherit', 'inherit'] });

test('killed at random moments, with receivers that fail in every way', { timeout: 180_000 }, async (t) => {
  const forbidden = await startForbidden(t, '127.0.0.2');
  const { state, port } = await startReceivers(t, `http://127.0.0.2:${forbidden.port}/`);
  const besideIt = await startForbidden(t, '127.0.0.2', port);
  const onIpv6 = await startForbidden(t, '::1', port);
  const plan: Plan = {
    path: join(temporaryFolder(t), 'picket.db'),
    receivers: {
      ...Object.fromEntries(
        ['well', 'flaky', 'gone', 'moved'].map((name) => [name, `http://127.0.0.1:${port}/${name}`]),
      ),
      literal: `http://127.0.0.2:${port}/`,
      mapped: `http://[::ffff:127.0.0.2]:${port}/`,
      ipv6: `http://[::1]:${port}/`,
      rebinding: `http://rebinding.example:${port}/rebinding`,
    },
    allow: ['127.0.0.1'],
    names: { 'rebinding.example': ['127.0.0.1', '127.0.0.2', '::1', '::ffff:127.0.0.2'] },
    ...{ changes: 0, finish: false },
  };

  const random = mulberry32(3);
  for (let kill = 0; kill < KILLS; kill++) {
    const child = start({ ...plan, changes: Math.floor((CHANGES.length * (kill + 1)) / KILLS) });
    // At a request, which is the moment between sending and writing down what came of it.
    let left = 1 + Math.floor(random() * 8);
    state.onRequest = () => {
      if (--left === 0) child.kill('SIGKILL');
    };
    const [, signal] = await once(child, 'exit');
    assert.equal(signal, 'SIGKILL');
  }
  const whileKilled = state.requests.length;
  state.healed = true;
  state.onRequest = () => {};
  const { well, flaky, gone } = plan.receivers as Record<string, string>;
  const [code] = await once(
    start({ ...plan, receivers: { well, flaky, gone } as Plan['receivers'], changes: CHANGES.length, finish: true }),
    'exit',
  );
  assert.equal(code, 0);

  assert.deepEqual([forbidden.connections, besideIt.connections, onIpv6.connections], [0, 0, 0], 'forbidden addresses');
  const of = (receiver: string) => state.requests.filter((request) => request.receiver === receiver);
  assert.ok(of('moved').length > 0 && of('rebinding').length > 0, 'they were asked');
  oneBodyForAnId(state.requests);
  neverMoreThanAttempts(state.requests.slice(0, whileKilled));
  for (const receiver of ['well', 'flaky', 'gone']) everythingTold(of(receiver), receiver);
  inOrder(state.requests.slice(0, whileKilled));
  noEndOfWhatWasNeverTold(state.requests);
});

function oneBodyForAnId(requests: readonly Request[]): void {
  const bodies = new Map(requests.map(({ id, body }) => [id, body]));
  for (const { id, body } of requests) assert.equal(body, bodies.get(id), `two bodies of ${id}`);
}

function neverMoreThanAttempts(requests: readonly Request[]): void {
  const tries = new Map<string, number>();
  for (const { id } of requests) tries.set(id, (tries.get(id) ?? 0) + 1);
  for (const [id, count] of tries) assert.ok(count <= MAX_ATTEMPTS, `${count} tries of ${id}`);
  const total = requests.filter(({ receiver }) => receiver === 'well').length;
  assert.ok(total <= CHANGES.length + 4 * KILLS, `${total} requests to a receiver that is well`);
}

/** The incident and its state in each request: 0 opened, 1 risen, 2 over. */
function told({ body }: Request): { incident: string; stage: number } {
  const { alerts } = JSON.parse(body) as AlertmanagerBody;
  const firing = alerts.find(({ status }) => status === 'firing');
  const incident = alerts[0]?.labels.incident_id as string;
  return { incident, stage: firing ? (firing.labels.severity === 'critical' ? 1 : 0) : 2 };
}

const over = new Set(CHANGES.flatMap(([, { id, status }]) => (status === 'resolved' ? [id] : [])));

/** The receiver has heard of every incident, and knows of each that it is over. */
function everythingTold(requests: readonly Request[], receiver: string): void {
  const accepted = requests.filter((request) => request.accepted).map(told);
  const newest = new Map(accepted.map(({ incident, stage }) => [incident, stage]));
  const firing = [...newest].filter(([incident, stage]) => stage !== 2 && over.has(incident));
  assert.deepEqual(firing, [], `${receiver} believes that these fire`);
  if (receiver === 'well') {
    const stages = new Set(accepted.map(({ incident, stage }) => `${incident} ${stage}`));
    assert.equal(stages.size, CHANGES.length, 'changes that a receiver that is well was told of');
  }
  // What fails for all attempts is given up, and by the time it is sent again it may be over.
  const heard = new Set(requests.map((request) => told(request).incident));
  assert.deepEqual(
    [...heard].sort(),
    [...new Set(CHANGES.map(([, { id }]) => id))].sort(),
    `${receiver} was asked about all`,
  );
}

function inOrder(requests: readonly Request[]): void {
  const stages = new Map<string, number>();
  for (const request of requests) {
    const { incident, stage } = told(request);
    const key = `${request.receiver} ${incident}`;
    assert.ok(stage >= (stages.get(key) ?? 0), `${key}: ${stage} after ${stages.get(key)}`);
    stages.set(key, stage);
  }
}

function noEndOfWhatWasNeverTold(requests: readonly Request[]): void {
  const began = new Set<string>();
  for (const request of requests) {
    const { incident, stage } = told(request);
    const key = `${request.receiver} ${incident}`;
    if (stage === 2) assert.ok(began.has(key), `the end of ${key}, which was never told`);
    else began.add(key);
  }
}
