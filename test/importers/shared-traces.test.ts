import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { KIND } from '../../protocol/vocabulary.js';
import { sharedData } from '../support/shared-data.js';
import { droppedOf, importAll } from './import.js';

const kineto = sharedData('kineto');
const h200 = sharedData('h200-tp2');
const training = sharedData('h200-train');
const ndtimeline = sharedData('ndtimeline');

test('every Kineto trace is read, each step with what it computed', { skip: kineto.skip }, async () => {
  for (const name of readdirSync(kineto.path)) {
    const { rows, report } = await importAll(join(kineto.path, name));
    assert.equal(report.files[0]?.rows, rows.length);
    const steps = rows.filter(({ kind }) => kind === KIND.step);
    const computing = rows.filter(({ phase }) => phase === 'compute');
    assert.equal(computing.length, steps.length, name);
    for (const [i, { dur_ns, busy_ns, count, launches }] of computing.entries()) {
      assert.ok(busy_ns > 0 && busy_ns <= (steps[i]?.dur_ns ?? 0), name);
      assert.ok(dur_ns === busy_ns && count >= launches && launches > 0, name);
    }
  }
});

test('two ranks of one job come together, step by step', { skip: kineto.skip }, async () => {
  const { rows, batches } = await importAll(
    [0, 1].map((n) => join(kineto.path, `hta-trace_filter-sampled_rank-${n}.json.gz`)),
  );
  assert.equal(batches.length, 1);
  assert.deepEqual(
    rows.filter(({ kind }) => kind === KIND.step).map(({ job, rank, step, dur_ns }) => [job, rank, step, dur_ns]),
    [
      ['hta-trace_filter-sampled', 0, 551n, 607_312_000n],
      ['hta-trace_filter-sampled', 1, 551n, 607_904_000n],
      ['hta-trace_filter-sampled', 0, 552n, 622_928_000n],
      ['hta-trace_filter-sampled', 1, 552n, 630_639_000n],
    ],
  );
});

test('collectives of a trace carry group, ranks and bytes', { skip: kineto.skip }, async () => {
  const { rows, batches } = await importAll(join(kineto.path, 'hta-nccl_parser_config-nccl_data.json.gz'));
  const collectives = rows.filter(({ kind }) => kind === KIND.comm);
  assert.equal(collectives.length, 21);
  assert.ok(collectives.every(({ group, bytes }) => group === '0' && bytes > 0));
  assert.deepEqual(batches[0]?.meta.groups, { 0: [0, 1] });
});

test('work that the trace shows outside its steps is counted', { skip: kineto.skip }, async () => {
  const imported = await importAll(join(kineto.path, 'hta-negative_queue_length_values_check-rank0.json.gz'));
  assert.deepEqual(droppedOf(imported), { outside_steps: 880 });
});

test('graph launches are told from single ones, overlap on a stream is no fault', { skip: kineto.skip }, async () => {
  const graphOf = async (name: string) => {
    const { rows, report } = await importAll(join(kineto.path, name));
    assert.equal(report.dropped.size, 0);
    const [compute] = rows.filter(({ phase }) => phase === 'compute');
    return [compute?.graph, compute?.launches];
  };
  assert.deepEqual(await graphOf('tracelens-vllm_decode_full-graph_execution.json.gz'), [1, 5]);
  assert.deepEqual(await graphOf('tracelens-vllm_prefilldecode_piecewise-graph_execution.json.gz'), [1, 77]);
  assert.deepEqual(await graphOf('tracelens-b200-eager.json.gz'), [0, 694]);
});

test('a scenario of the tensor parallel recording is whole', { skip: h200.skip }, async () => {
  const { rows, report } = await importAll(h200.path, { scenario: 'healthy' });
  assert.equal(report.rows, 2 * 500 * 65 + 2 * 499);
  assert.equal(report.dropped.size, 0);
  const collectives = rows.filter(({ rank, phase }) => rank === 1 && phase === 'all_reduce');
  assert.deepEqual(
    collectives.map(({ seq }) => seq),
    Array.from({ length: 500 * 32 }, (_, seq) => BigInt(seq)),
  );
});

test('every transfer of the pipelines has its two ends', { skip: training.skip }, async () => {
  const { rows, batches } = await importAll(training.path, { scenario: 'pipeline_healthy' });
  const ends = new Map<string, number>();
  for (const { op, group, seq } of rows.filter(({ kind }) => kind === KIND.comm)) {
    assert.ok(op === 'send' || op === 'recv');
    ends.set(`${group} ${seq}`, (ends.get(`${group} ${seq}`) ?? 0) + 1);
  }
  assert.equal(ends.size, 240 * 6 * 2);
  assert.ok([...ends.values()].every((count) => count === 2));
  assert.deepEqual(
    batches[0]?.meta.ranks.map(({ dp, stage }) => [dp, stage]),
    [
      [0, 0],
      [0, 1],
    ],
  );
});

test('data parallel training has one all-reduce a step', { skip: training.skip }, async () => {
  const { rows, batches } = await importAll(training.path, { scenario: 'train_healthy' });
  assert.deepEqual(batches[0]?.meta.groups, { dp: [0, 1] });
  const seqs = rows.filter(({ op, rank }) => op === 'all_reduce' && rank === 1).map(({ step, seq }) => [step, seq]);
  assert.deepEqual(
    seqs,
    Array.from({ length: 240 }, (_, step) => [BigInt(step), BigInt(step)]),
  );
});

// The Chrome form shows transfers without the wait for them, so only computing can be compared.
test('NDTimeline in both its forms gives the same rows, and the same computing but for rounding', {
  skip: ndtimeline.skip,
}, async () => {
  const rowsOf = async (name: string) => {
    const { rows } = await importAll(join(ndtimeline.path, name));
    return new Map(rows.map((row) => [`${row.rank} ${row.step} ${row.phase} ${row.group} ${row.seq}`, row]));
  };
  const parquet = await rowsOf('stage-imbalance.parquet');
  const chrome = await rowsOf('stage-imbalance.timeline.json.gz');
  assert.equal(parquet.size, 6784);
  assert.deepEqual([...chrome.keys()].sort(), [...parquet.keys()].sort());
  for (const [key, { kind, dur_ns }] of chrome)
    if (kind === KIND.compute) assert.ok(Math.abs(Number(dur_ns) - Number(parquet.get(key)?.dur_ns)) <= 1, key);
});
