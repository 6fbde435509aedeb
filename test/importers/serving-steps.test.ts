import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { servingWorkOf } from '../../importers/serving-steps.js';
import { KIND } from '../../protocol/vocabulary.js';
import { sharedData } from '../support/shared-data.js';
import { droppedOf, importAll, importFile } from './import.js';

const workOf = (prefill_tokens: number, decode_tokens: number, batch: number, context_tokens = -1) => {
  return { tokens: prefill_tokens + decode_tokens, prefill_tokens, decode_tokens, context_tokens, batch };
};

test('vLLM’s names of iterations, plain and detailed', () => {
  const cases: [string, object | undefined][] = [
    ['execute_context_2(14721)_generation_0(0)', workOf(14721, 0, 2)],
    ['execute_context_0(0)_generation_64(192)', workOf(0, 192, 64)],
    ['execute_context_1(888_788544)_generation_0(0)', workOf(888, 0, 1)],
    [
      'execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)',
      workOf(8155, 37, 46, 42919),
    ],
    ['execute_new_3_cached_5', undefined],
    ['execute_context_x(1)_generation_0(0)', undefined],
    ['gpu_model_runner: forward', undefined],
  ];
  for (const [name, work] of cases) assert.deepEqual(servingWorkOf(name), work, name);
});

const host = (name: string, ts: number, dur: number) => ({
  ph: 'X',
  cat: 'user_annotation',
  name,
  pid: 1,
  tid: 1,
  ts,
  dur,
});
/** A launch on the host at `at`, and what it had the GPU do from `ts` on, in microseconds. */
const work = (correlation: number, at: number, cat: string, name: string, ts: number, dur: number) => [
  { ph: 'X', cat: 'cuda_runtime', name: 'cudaLaunchKernel', pid: 1, tid: 1, ts: at, dur: 1, args: { correlation } },
  { ph: 'X', cat, name, pid: 0, tid: 7, ts, dur, args: { device: 0, correlation } },
];
const PREFILL = 'execute_context_1(512)_generation_2(2)';
const DECODE = 'execute_context_0(0)_generation_3(3)';
const EVENTS = [
  ...work(9, 5, 'kernel', 'before', 80, 10),
  host(PREFILL, 10, 8),
  ...work(1, 11, 'kernel', 'prefill', 100, 50),
  ...work(2, 19, 'kernel', 'sampled after the annotation', 150, 5),
  host(DECODE, 20, 8),
  ...work(3, 21, 'gpu_memcpy', 'Memcpy HtoD (Pinned -> Device)', 120, 2),
  ...work(4, 22, 'kernel', 'decode', 160, 7),
  { ph: 'X', cat: 'kernel', name: 'without a launch', pid: 0, tid: 7, ts: 167, dur: 1, args: { device: 0 } },
  host('execute_context_0(0)_generation_0(0)', 30, 1),
];
const read = async (t: Parameters<typeof importFile>[0], events: readonly object[]) => {
  const imported = await importFile(t, 'a.json', JSON.stringify({ traceEvents: events }));
  const rows = imported.rows.map((row) => [
    ...[row.step, row.phase, row.start_ns, row.dur_ns, row.prefill_tokens, row.decode_tokens, row.batch],
  ]);
  return { rows, dropped: droppedOf(imported) };
};

test('GPU work goes to the iteration that launched it, however far the host is ahead', async (t) => {
  const { rows, dropped } = await read(t, EVENTS);
  assert.deepEqual(rows, [
    [0n, 'step', 100_000n, 55_000n, 512, 2, 3],
    [0n, 'compute', 100_000n, 55_000n, 512, 2, 3],
    [1n, 'step', 120_000n, 48_000n, 0, 3, 3],
    [1n, 'compute', 160_000n, 8000n, 0, 3, 3],
    [1n, 'h2d', 120_000n, 2000n, 0, 3, 3],
  ]);
  assert.deepEqual(dropped, { outside_steps: 1 });
});

test('iterations have the numbers of the profiler’s steps where each has one of its own', async (t) => {
  const steps = [host('ProfilerStep#7', 9, 10.5), host('ProfilerStep#8', 19.5, 10), host('ProfilerStep#9', 29.5, 5)];
  const numbers = ({ rows }: { rows: unknown[][] }) => [...new Set(rows.map(([step]) => step))];
  assert.deepEqual(numbers(await read(t, [...steps, ...EVENTS])), [7n, 8n]);
  assert.deepEqual(numbers(await read(t, [...steps.slice(0, 2), ...EVENTS])), [0n, 1n]);
});

const kineto = sharedData('kineto');

test('recorded iterations say what they work on', { skip: kineto.skip }, async () => {
  const stepOf = async (name: string) => {
    const { rows } = await importAll(join(kineto.path, `tracelens-${name}.json.gz`));
    const steps = rows.filter(({ kind }) => kind === KIND.step);
    assert.equal(steps.length, 1);
    const { tokens, prefill_tokens, decode_tokens, context_tokens, batch } = steps[0] as (typeof rows)[number];
    return { tokens, prefill_tokens, decode_tokens, context_tokens: Number(context_tokens), batch };
  };
  assert.deepEqual(await stepOf('b200-eager'), workOf(888, 0, 1));
  assert.deepEqual(await stepOf('vllm_decode_full-graph_execution'), workOf(0, 32, 32, 55086));
  assert.deepEqual(await stepOf('vllm_prefilldecode_piecewise-graph_execution'), workOf(8155, 37, 46, 42919));
});
