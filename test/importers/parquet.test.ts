import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { KIND } from '../../protocol/vocabulary.js';
import { droppedOf, folderOf, type ImportedRow, importAll, importFile } from './import.js';

const FOLDER = 'fixtures/small-parquet';
const phases = join(FOLDER, 'phases.parquet');
const steps = join(FOLDER, 'steps.parquet');

test('each scenario is a job, with its collectives named and numbered on both ranks', async () => {
  const { rows, batches } = await importAll(phases);
  assert.deepEqual(
    batches.map(({ meta, length }) => [meta.job, length, meta.groups]),
    [
      ['quiet', 20, { tp: [0, 1] }],
      ['busy', 20, { tp: [0, 1] }],
    ],
  );
  const collectives = rows.filter(({ job, op }) => job === 'busy' && op === 'all_reduce');
  assert.deepEqual(
    collectives.map((row) => [row.rank, row.step, row.phase, row.kind, row.group, row.seq, row.bytes]),
    [0n, 1n].flatMap((step) =>
      [0, 1].flatMap((rank) =>
        [0n, 1n].map((order) => [rank, step, 'all_reduce', KIND.comm, 'tp', step * 2n + order, 65536n]),
      ),
    ),
  );
});

test('nanoseconds, tokens, graph and request come through exactly', async () => {
  const { rows } = await importAll(phases, { scenario: 'quiet' });
  const [decode, prefill] = rows.filter(({ rank, phase }) => rank === 1 && phase === 'mlp');
  assert.equal(decode?.start_ns, 1770000000000000101n + 7n + 160n);
  const work = (row: ImportedRow | undefined) => [
    row?.prefill_tokens,
    row?.decode_tokens,
    row?.context_tokens,
    row?.tokens,
    row?.batch,
  ];
  assert.deepEqual([...work(decode), decode?.graph, decode?.request], [0, 8, 8192n, 8, 8, 8, '']);
  assert.deepEqual([...work(prefill), prefill?.graph, prefill?.request], [512, 0, 0n, 512, 1, 0, '42']);
});

test('the launches beside a recording give the host gaps', async () => {
  const { rows, report } = await importAll([phases, steps], { scenario: 'busy' });
  assert.deepEqual(
    rows
      .filter(({ kind }) => kind === KIND.host)
      .map((row) => [row.phase, row.rank, row.step, row.start_ns, row.dur_ns]),
    [
      ['host_gap', 0, 1n, 1770000000000998000n, 2000n],
      ['host_gap', 1, 1n, 1770000000000998500n, 1500n],
    ],
  );
  assert.deepEqual(
    report.files.map((file) => [file.path, file.rows]),
    [
      [phases, 20],
      [steps, 2],
    ],
  );
});

test('an unknown scenario is refused with those there are, and one without scenarios too', async () => {
  await assert.rejects(importAll(phases, { scenario: 'x' }), { message: /no scenario "x"; it has quiet, busy/ });
  await assert.rejects(importAll(join(FOLDER, 'timeline.parquet'), { scenario: 'x' }), {
    message: /no file has scenarios/,
  });
});

test('two scenarios cannot be one job', async () => {
  await assert.rejects(importAll(phases, { job: 'one' }), {
    code: 'conflict',
    message: /phases.parquet \(busy\): rank 0 of job "one" is also in .*phases.parquet \(quiet\)/,
  });
});

test('send and recv meet in a pair of ranks and a direction, also in the middle of a pipeline', async () => {
  const { rows, batches } = await importAll(join(FOLDER, 'pipeline.parquet'));
  const transfers = new Map<string, string[]>();
  for (const { op, group, seq, rank } of rows.filter(({ kind }) => kind === KIND.comm))
    transfers.set(`${group} ${seq}`, [...(transfers.get(`${group} ${seq}`) ?? []), `${op} ${rank}`].sort());
  const pair = (from: number, to: number, order: number) => [
    `pp ${from}->${to} ${7 * 2 + order}`,
    [`recv ${to}`, `send ${from}`],
  ];
  const expected = [0, 1].flatMap((order) => [
    pair(0, 1, order),
    pair(1, 2, order),
    pair(2, 1, order),
    pair(1, 0, order),
  ]);
  assert.deepEqual(new Map([...transfers].sort()), new Map((expected as [string, string[]][]).sort()));
  assert.deepEqual(
    batches[0]?.meta.ranks.map(({ rank, dp, stage }) => [rank, dp, stage]),
    [
      [0, 0, 0],
      [1, 0, 1],
      [2, 0, 2],
    ],
  );
});

test('NDTimeline: steps lie end to end, operations have their groups, impossible times are counted', async () => {
  const imported = await importAll(join(FOLDER, 'timeline.parquet'));
  assert.deepEqual(droppedOf(imported), { duration_negative: 1, duration_too_long: 1 });
  const { meta } = imported.batches[0] ?? assert.fail('no batch');
  assert.equal(meta.job, 'timeline');
  const expected = {
    'pp 0->2': [0, 2],
    'pp 3->1': [1, 3],
    'grads stage 1': [2, 3],
    'params stage 0': [0, 1],
    'embedding dp 1': [1, 3],
    'tp dp 0 stage 0': [0],
    world: [0, 1, 2, 3],
  };
  for (const [name, ranks] of Object.entries(expected)) assert.deepEqual(meta.groups[name], ranks, name);
  assert.deepEqual(meta.ranks[2], { rank: 2, dp: 0, tp: 0, pp: 1, stage: 1 });
  const starts = (phase: string) =>
    imported.rows.filter((row) => row.phase === phase && row.rank === 0).map((row) => row.start_ns);
  const base = 1_700_000_000_000_000_000n;
  assert.deepEqual(starts('forward'), [base, base + 2_000_000_000n]);
  const [gc] = imported.rows.filter(({ phase }) => phase === 'gc');
  assert.deepEqual([gc?.kind, gc?.dur_ns, gc?.rank], [KIND.host, 0n, 2]);
  const [clip] = imported.rows.filter(({ group }) => group === 'world');
  assert.deepEqual([clip?.phase, clip?.op, clip?.kind], ['all_reduce', 'all_reduce', KIND.comm]);
});

test('missing columns are named, with those there are', async () => {
  await assert.rejects(importAll(steps), {
    code: 'bad_input',
    message: /steps.parquet: field "phase": column phase, start_ns, dur_ns is missing; the file has scenario, rank/,
  });
});

test('times that were rounded on their way into the file are refused', async () => {
  await assert.rejects(importAll(join(FOLDER, 'float-times.parquet')), {
    code: 'bad_input',
    message: /float-times.parquet: field "start_ns": does not hold 64-bit integers; write whole numbers/,
  });
});

test('a file that is cut short or damaged is refused with its name', async (t) => {
  const bytes = readFileSync(phases);
  await assert.rejects(importFile(t, 'cut.parquet', bytes.subarray(0, -20)), {
    message: /cut.parquet at byte \d+: the parquet footer cannot be read .*copy it again/,
  });
  const damaged = Buffer.from(bytes).fill(0, 4, 400);
  await assert.rejects(importFile(t, 'damaged.parquet', damaged), {
    message: /damaged.parquet at byte \d+: the parquet column/,
  });
});

test('a folder of parquet is shared among the importers that read it', async (t) => {
  const files = ['phases', 'steps', 'pipeline', 'timeline'].map((name) => `${name}.parquet`);
  const folder = folderOf(t, Object.fromEntries(files.map((name) => [name, readFileSync(join(FOLDER, name))])));
  const { report } = await importAll(folder);
  assert.deepEqual(
    report.files.map(({ importer, rows }) => [importer, rows]),
    [
      ['ndtimeline-parquet', 60],
      ['phases-parquet', 40],
      ['phases-parquet', 4],
      ['phases-parquet', 20],
    ],
  );
});
