import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { PicketError } from '../../../protocol/errors.js';
import { REQUESTS } from '../../../simulator/measured-requests.js';
import { Random } from '../../../simulator/random.js';
import { type Arrivals, ClosedArrivals, OpenArrivals } from '../../../simulator/requests/arrivals.js';
import { LoggedRequests, readRequestLog } from '../../../simulator/requests/log.js';
import type { Request, RequestMix } from '../../../simulator/requests/request.js';
import { SyntheticRequests } from '../../../simulator/requests/synthetic.js';
import { simulate } from '../../../simulator/simulate.js';
import { sharedData } from '../../support/shared-data.js';
import { meanOf, simulatedRows, sumOf } from '../rows.js';

const folder = mkdtempSync(join(tmpdir(), 'picket-requests-'));
after(() => rmSync(folder, { recursive: true, force: true }));

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const MOONCAKE = [
  { timestamp: 0, input_length: 1200, output_length: 5, hash_ids: [1, 2, 3] },
  { timestamp: 3000, input_length: 600, output_length: 7, hash_ids: [1, 9] },
];
const mooncake = file('mooncake.jsonl', `${MOONCAKE.map((line) => JSON.stringify(line)).join('\n')}\n`);
const azure = file(
  'azure.csv',
  'TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:05.9799600,12,8\r\n',
);

test('both logs are read: times, lengths, and whole blocks of a prompt', () => {
  assert.deepEqual(readRequestLog(mooncake), [
    { seconds: 0, promptTokens: 1200, outputTokens: 5, prefix: [1, 2] },
    { seconds: 3, promptTokens: 600, outputTokens: 7, prefix: [1] },
  ]);
  const [first, second] = readRequestLog(azure);
  assert.deepEqual([first?.promptTokens, first?.outputTokens, second?.promptTokens], [4808, 10, 12]);
  assert.ok(Math.abs((second?.seconds as number) - (first?.seconds as number) - 2) < 1e-6);
});

test('a log that cannot be read is one clear error', () => {
  const refused = (path: string, pattern: RegExp): void =>
    assert.throws(
      () => readRequestLog(path),
      (error) => error instanceof PicketError && error.code === 'bad_input' && pattern.test(error.message),
      String(pattern),
    );
  refused(join(folder, 'none'), /none: cannot be read/);
  refused(file('empty', ''), /empty: holds no requests; give a Mooncake JSONL or an Azure CSV/);
  refused(file('a', `${JSON.stringify(MOONCAKE[0])}\n{"timestamp":`), /a:2: not JSON/);
  refused(
    file('b', '{"timestamp":0,"input_length":0,"output_length":1,"hash_ids":[]}'),
    /b:1: field "input_length": 0 is not/,
  );
  refused(file('c', '{"timestamp":0,"input_length":9,"output_length":1}'), /c:1: field "hash_ids"/);
  refused(file('d', 'TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1'), /d:2: field "TIMESTAMP"/);
  refused(
    file('e', 'TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,1,x'),
    /e:2: field "GeneratedTokens"/,
  );
  const options = { scenario: 'serving-scheduled', ranks: 2, steps: 5, seed: 1, requestLog: join(folder, 'none') };
  assert.throws(() => [...simulate(options)], /cannot be read/);
});

const take = (stream: { next(): Request }, n: number): Request[] => Array.from({ length: n }, () => stream.next());

test('a log is played at the rate asked for, shared between engines, and again from its beginning', () => {
  const log = readRequestLog(mooncake);
  const all = take(new LoggedRequests(log, 1e9, { first: 0, of: 1 }), 4);
  assert.deepEqual(
    all.map((request) => request.arrivalNs / 1e9),
    [0, 1, 2, 3],
  );
  assert.deepEqual(
    all.map((request) => request.id),
    ['req-0', 'req-1', 'req-2', 'req-3'],
  );
  const second = take(new LoggedRequests(log, 1e9, { first: 1, of: 2 }), 2);
  assert.deepEqual(
    second.map(({ id, arrivalNs, promptTokens }) => [id, arrivalNs / 1e9, promptTokens]),
    [
      ['req-1', 0.5, 600],
      ['req-3', 1.5, 600],
    ],
  );
});

test('synthetic arrivals are Poisson at their rate', () => {
  const times = take(new SyntheticRequests(Random.stream(1, 's'), REQUESTS['azure-conv'], 1e8), 20_000).map(
    (r) => r.arrivalNs,
  );
  const gaps = times.map((at, i) => at - (times[i - 1] ?? 0));
  const mean = meanOf(gaps);
  assert.ok(Math.abs(mean / 1e8 - 1) < 0.03);
  const variance = meanOf(gaps.map((gap) => (gap - mean) ** 2));
  assert.ok(Math.abs(Math.sqrt(variance) / mean - 1) < 0.03);
});

for (const [mix, name] of [
  ['azure-conv', 'azure-conv.csv'],
  ['azure-code', 'azure-code.csv'],
  ['mooncake', 'mooncake-conversation.jsonl'],
] as const) {
  const log = sharedData(`requests/${name}`);
  test(`synthetic requests are like those of ${name}`, { skip: log.skip }, () => {
    const real = readRequestLog(log.path);
    const mine = take(new SyntheticRequests(Random.stream(1, 's'), REQUESTS[mix], 1e8), 10_000);
    const compare = (of: (request: Pick<Request, 'promptTokens' | 'outputTokens'>) => number, factor: number): void => {
      const ratio = meanOf(mine.map(of)) / meanOf(real.map(of));
      assert.ok(ratio > 1 / factor && ratio < factor, `${ratio}`);
    };
    compare((request) => request.promptTokens, 1.2);
    compare((request) => request.outputTokens, 1.3);
    compare((request) => Math.log(request.promptTokens), 1.02);
    compare((request) => Math.log(request.outputTokens), 1.05);
    const found = (requests: readonly Pick<Request, 'prefix'>[]): number => {
      const known = new Set<number>();
      let hits = 0;
      for (const { prefix } of requests) {
        const first = prefix.findIndex((hash) => !known.has(hash));
        hits += first === -1 ? prefix.length : first;
        for (const hash of prefix) known.add(hash);
      }
      return hits / Math.max(1, sumOf(requests.map((request) => request.prefix.length)));
    };
    assert.ok(Math.abs(found(mine) - found(real)) < 0.12, `${found(mine)} ${found(real)}`);
  });
  test(`an engine serves ${name}`, { skip: log.skip }, () => {
    const rows = simulatedRows({
      scenario: 'serving-scheduled',
      ranks: 2,
      steps: 400,
      seed: 1,
      requestLog: log.path,
    }).filter((row) => row.phase === 'step' && row.rank === 0);
    assert.ok(sumOf(rows.map((row) => row.prefill)) > 2000 && sumOf(rows.map((row) => row.decode)) > 20);
  });
}

test('open arrivals come when they come; clients send the next request when they have their answer', () => {
  const stream = (): SyntheticRequests =>
    new SyntheticRequests(Random.stream(1, 's'), REQUESTS['short-chat' satisfies RequestMix], 1e8);
  const open: Arrivals = new OpenArrivals(stream());
  const next = open.nextNs();
  assert.deepEqual(open.due(next - 1, 0, 0), []);
  assert.equal(open.due(next, 0, 0).length, 1);
  assert.ok(open.nextNs() > next);
  const many = open.due(1e10, 0, 0);
  assert.ok(many.length > 60 && many.every((request) => request.arrivalNs <= 1e10));
  const closed = new ClosedArrivals(stream(), (step) => (step < 5 ? 3 : 8));
  assert.equal(closed.due(7, 1, 0).length, 2);
  assert.deepEqual(closed.due(7, 3, 0), []);
  assert.equal(closed.due(7, 3, 5).length, 5);
});
