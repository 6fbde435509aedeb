import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { KIND } from '../../protocol/vocabulary.js';
import { droppedOf, folderOf, importAll, importFile } from './import.js';

/** A trace of one rank whose events the profiler wrote. */
const trace = (events: readonly object[], head: object = { distributedInfo: { rank: 0 } }) =>
  JSON.stringify({ ...head, traceEvents: events });

const step = (n: number, ts: number, dur: number) => {
  return { ph: 'X', cat: 'user_annotation', name: `ProfilerStep#${n}`, pid: 1, tid: 1, ts, dur };
};
const gpu = (cat: string, name: string, ts: number | string, dur: number | string, args: object = {}) => {
  return { ph: 'X', cat, name, pid: 0, tid: 7, ts, dur, args: { device: 0, stream: 7, ...args } };
};
const launch = (name: string, correlation: number) => {
  return { ph: 'X', cat: 'cuda_runtime', name, pid: 1, tid: 1, ts: 1, dur: 1, args: { correlation } };
};

test('decimals keep their nanoseconds', async (t) => {
  const { rows } = await importFile(t, 'a.json', '[{"ph":"X","name":"x","ts":100.7,"dur":0.2}]');
  assert.deepEqual(
    rows.map(({ start_ns, dur_ns }) => [start_ns, dur_ns]),
    [[100_700n, 200n]],
  );
});

test('an event ends exactly where the next begins', async (t) => {
  const text =
    '[{"ph":"X","name":"x","ts":172189236.812,"dur":0.001},{"ph":"X","name":"y","ts":172189236.813,"dur":0.000}]';
  const [x, y] = (await importFile(t, 'a.json', text)).rows;
  assert.equal(BigInt(x?.start_ns ?? 0) + BigInt(x?.dur_ns ?? 0), y?.start_ns);
  assert.equal(y?.dur_ns, 0n);
});

test('displayTimeUnit does not change the unit of the events', async (t) => {
  const text = '{"displayTimeUnit":"ns","traceEvents":[{"ph":"X","name":"x","ts":5000000,"dur":5000000}]}';
  const [row] = (await importFile(t, 'a.json', text)).rows;
  assert.deepEqual([row?.start_ns, row?.dur_ns], [5_000_000_000n, 5_000_000_000n]);
});

test('base times that differ between ranks are added as integers', async (t) => {
  const rank = (n: number, base: string, ts: string) =>
    `{"distributedInfo":{"rank":${n}},"traceEvents":[{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","ts":${ts},"dur":1}],"baseTimeNanoseconds":${base}}`;
  const folder = folderOf(t, {
    'a_rank0.json': rank(0, '1767189312000000000', '7889237999000.5'),
    'a_rank1.json': rank(1, '1775078550000000000', '0.500'),
  });
  const starts = (await importAll(folder)).rows.map((row) => [row.rank, row.start_ns]);
  assert.deepEqual(starts, [
    [0, 1775078549999000500n],
    [1, 1775078550000000500n],
  ]);
});

test('begin and end events are paired within a thread, instants are no phases', async (t) => {
  const at = { pid: 1, tid: 14 };
  const { rows } = await importFile(
    t,
    'a.json',
    JSON.stringify([
      { ph: 'B', name: 'Event6', ts: 209948, ...at },
      { ph: 'E', ts: 210012, ...at },
      { ph: 'B', name: 'Event5', ts: 210012, ...at },
      { ph: 'i', name: 'instant', ts: 210012, ...at },
      { ph: 'B', name: 'elsewhere', ts: 210100, pid: 1, tid: 15 },
      { ph: 'E', ts: 210295, ...at },
      { ph: 'E', ts: 210400, pid: 1, tid: 15 },
    ]),
  );
  assert.deepEqual(
    rows.map(({ phase, dur_ns }) => [phase, dur_ns]),
    [
      ['Event6', 64_000n],
      ['Event5', 283_000n],
      ['elsewhere', 300_000n],
    ],
  );
});

test('repeats of a phase within a step are numbered by their start', async (t) => {
  const event = (name: string, n: number, ts: number) => ({ ph: 'X', name, ts, dur: 1, args: { step: n } });
  const events = [event('fwd', 1, 30), event('fwd', 1, 10), event('bwd', 1, 20), event('fwd', 0, 5)];
  const { rows } = await importFile(t, 'a.json', JSON.stringify(events));
  assert.deepEqual(
    rows.map((row) => [row.step, row.phase, row.seq, row.start_ns]),
    [
      [0n, 'forward', 0n, 5000n],
      [1n, 'forward', 0n, 10_000n],
      [1n, 'backward', 0n, 20_000n],
      [1n, 'forward', 1n, 30_000n],
    ],
  );
});

test('a step becomes a row of itself, of its computing, of its copies and of each collective', async (t) => {
  const nccl = {
    'Collective name': 'allreduce',
    'In msg nelems': 10,
    dtype: 'Float',
    'Process Group Name': '3',
    'Process Group Ranks': '[0, 1]',
  };
  const { rows, batches } = await importFile(
    t,
    'a.json',
    trace([
      step(5, 100, 50),
      step(6, 151, 49),
      gpu('kernel', 'gemm', 110, 10),
      gpu('kernel', 'overlaps', 115, 10),
      gpu('gpu_memset', 'Memset (Device)', 130, 2),
      gpu('gpu_memcpy', 'Memcpy HtoD (Pinned -> Device)', 105, 3, { bytes: 64 }),
      gpu('gpu_memcpy', 'Memcpy DtoH (Device -> Pageable)', 149, 1, { bytes: 8 }),
      gpu('kernel', 'ncclDevKernel_AllReduce_Sum_f32_RING_LL', 145, 4, nccl),
      gpu('kernel', 'ncclDevKernel_AllReduce_Sum_f32_RING_LL', 140, 4, nccl),
      gpu('kernel', 'between the steps', 150.5, 1),
      gpu('kernel', 'in the next', 160, 7),
    ]),
  );
  assert.deepEqual(
    rows.map((row) => [row.step, row.phase, row.kind, row.start_ns, row.dur_ns, row.count, row.bytes]),
    [
      [5n, 'step', KIND.step, 100_000n, 50_000n, 1, 0n],
      [5n, 'compute', KIND.compute, 110_000n, 18_000n, 4, 0n],
      [5n, 'h2d', KIND.memory, 105_000n, 3000n, 1, 64n],
      [5n, 'd2h', KIND.memory, 149_000n, 1000n, 1, 8n],
      [5n, 'all_reduce', KIND.comm, 140_000n, 4000n, 1, 40n],
      [5n, 'all_reduce', KIND.comm, 145_000n, 4000n, 1, 40n],
      [6n, 'step', KIND.step, 151_000n, 49_000n, 1, 0n],
      [6n, 'compute', KIND.compute, 160_000n, 7000n, 1, 0n],
    ],
  );
  const [, compute, , , first, second] = rows;
  assert.deepEqual([compute?.busy_ns, compute?.max_ns, compute?.launches], [18_000n, 10_000n, 3]);
  assert.deepEqual([first?.op, first?.group, first?.seq, second?.seq], ['all_reduce', '3', 0n, 1n]);
  assert.deepEqual(batches[0]?.meta.groups, { 3: [0, 1] });
});

test('work outside the steps is counted, not added to one', async (t) => {
  const imported = await importFile(
    t,
    'a.json',
    trace([
      step(1, 100, 50),
      gpu('kernel', 'before', 90, 1),
      gpu('kernel', 'in', 150, 1),
      gpu('kernel', 'after', 151, 1),
    ]),
  );
  assert.deepEqual(droppedOf(imported), { outside_steps: 2 });
  assert.equal(imported.rows[1]?.count, 1);
});

test('a trace without steps is step 0, from its first to its last work on the GPU', async (t) => {
  const { rows } = await importFile(t, 'a.json', trace([gpu('kernel', 'b', 200, 30), gpu('kernel', 'a', 100, 5)]));
  assert.deepEqual(
    rows.map((row) => [row.step, row.phase, row.start_ns, row.dur_ns]),
    [
      [0n, 'step', 100_000n, 130_000n],
      [0n, 'compute', 100_000n, 35_000n],
    ],
  );
});

test('graph is 1 where most kernels come from graph launches, 0 where they do not, -1 where the trace does not say', async (t) => {
  const kernels = [1, 1, 1, 2].map((correlation, i) => gpu('kernel', 'k', 10 + i, 1, { correlation }));
  const computeOf = async (events: object[]) => (await importFile(t, 'a.json', trace(events))).rows[1];
  const ofGraph = await computeOf([launch('cudaGraphLaunch', 1), launch('cudaLaunchKernel', 2), ...kernels]);
  assert.deepEqual([ofGraph?.graph, ofGraph?.launches], [1, 2]);
  const eager = await computeOf([launch('hipGraphLaunch', 2), launch('hipLaunchKernel', 1), ...kernels]);
  assert.deepEqual([eager?.graph, eager?.launches], [0, 4]);
  assert.equal((await computeOf(kernels))?.graph, -1);
});

test('events whose times cannot be are dropped with the reason and the place', async (t) => {
  const imported = await importFile(
    t,
    'a.json',
    trace([
      step(1, 100, 50),
      gpu('kernel', 'good', 110, 0),
      gpu('kernel', 'no timing', 0, 0),
      gpu('kernel', 'unfinished', 120, -1),
      gpu('kernel', 'centuries', 120, 7447334400000000),
      gpu('kernel', 'no number', 'NaN', 1),
      gpu('kernel', 'far', '9223372036854775808', 1),
    ]),
  );
  assert.deepEqual(droppedOf(imported), {
    start_zero: 1,
    duration_negative: 1,
    duration_too_long: 1,
    invalid_value: 1,
    start_out_of_range: 1,
  });
  assert.ok((imported.report.dropped.get('start_zero')?.first.offset ?? 0) > 100);
  assert.equal(imported.rows[1]?.count, 1);
});

test('the rank comes from the trace, else from the file name, else a single file is rank 0', async (t) => {
  const rankOf = async (name: string, head: object) =>
    (await importFile(t, name, trace([step(1, 1, 1)], head))).rows[0]?.rank;
  assert.equal(await rankOf('a_rank-3.json', { distributedInfo: { rank: 7 } }), 7);
  assert.equal(await rankOf('a_rank-3.json', {}), 3);
  assert.equal(await rankOf('a.rank_12.pt.trace.json', {}), 12);
  assert.equal(await rankOf('rank_unavailable.json', {}), 0);
});

test('two files of a job, one without a rank, are refused with what to add', async (t) => {
  const unknown = trace([step(1, 1, 1)], {});
  const folder = folderOf(t, { 'a.json': unknown, 'b.json': unknown, 'c_rank1.json': unknown });
  const refused = {
    code: 'bad_input',
    message: /does not say which rank of job "j" it is.*add the rank to the file name/,
  };
  await assert.rejects(importAll([join(folder, 'a.json'), join(folder, 'b.json')], { job: 'j' }), refused);
  await assert.rejects(importAll([join(folder, 'a.json'), join(folder, 'c_rank1.json')], { job: 'j' }), refused);
  assert.deepEqual(
    (await importAll(folder)).rows.map(({ job, rank }) => [job, rank]),
    [
      ['a', 0],
      ['b', 0],
      ['c', 1],
    ],
  );
});

test('the same rank of a job in two files is refused', async (t) => {
  const folder = folderOf(t, { 'x/a_rank0.json': trace([step(1, 1, 1)]), 'y/a_rank0.json': trace([step(1, 1, 1)]) });
  await assert.rejects(importAll(folder), {
    code: 'conflict',
    message: /rank 0 of job "a" is also in .*x.a_rank0.json/,
  });
});

test('a list at the top, gzip and a byte order mark make no difference', async (t) => {
  const events = [step(1, 100, 50), gpu('kernel', 'k', 110, 10)];
  const { rows } = await importFile(t, 'a.json', trace(events));
  const list = `\ufeff${JSON.stringify(events)}`;
  assert.deepEqual((await importFile(t, 'a.json.gz', gzipSync(list))).rows, rows);
});

test('NDTimeline in Chrome form gives ranks and stages from the thread names', async (t) => {
  const event = (name: string, pid: number, tid: number) => {
    return {
      ph: 'X',
      name,
      cat: name,
      pid,
      tid,
      ts: 1000,
      dur: 5,
      args: { step: 23, model_chunk: 0, mb_id: 1, seq_id: 2 },
    };
  };
  const thread = (pid: number, tid: number, stage: number) => {
    return { ph: 'M', name: 'thread_name', pid, tid, args: { name: `PP rank ${stage}, TP rank 0, compute` } };
  };
  const events = [event('forward-send', 0, 1), event('forward-recv', 0, 2), event('gc', 1, 3), event('gc', 1, 4)];
  const threads = [thread(0, 1, 0), thread(0, 2, 1), thread(1, 3, 0), thread(1, 4, 1)];
  const { rows, batches } = await importFile(t, 'a.json', JSON.stringify([...events, ...threads]));
  assert.deepEqual(
    rows.map((row) => [row.rank, row.phase, row.group, row.microbatch, row.seq]),
    [
      [0, 'send', 'pp 0->2', 1, 2n],
      [2, 'recv', 'pp 0->2', 1, 2n],
      [1, 'gc', '', 1, 2n],
      [3, 'gc', '', 1, 2n],
    ],
  );
  assert.deepEqual(
    batches[0]?.meta.ranks.map(({ dp, stage }) => [dp, stage]),
    [
      [0, 0],
      [1, 0],
      [0, 1],
      [1, 1],
    ],
  );
});

test('files that are not what they claim are refused with file, place and remedy', async (t) => {
  const whole = gzipSync(trace(Array.from({ length: 2000 }, (_, i) => gpu('kernel', `k${i}`, i + 1, 1))));
  const cases: Record<string, [string | Uint8Array, RegExp]> = {
    'cut.json.gz': [whole.subarray(0, whole.length / 2), /cut.json.gz at byte \d+: the gzip data is cut short; copy/],
    'damaged.json.gz': [Buffer.concat([whole.subarray(0, -8), Buffer.alloc(8, 1)]), /the gzip data is damaged/],
    'cut.json': [trace([step(1, 1, 1)]).slice(0, -9), /cut.json at byte \d+: the JSON is cut short; copy/],
    'page.json': [
      '<!DOCTYPE html><html>',
      /page.json at byte 0: begins with "<!DOCTYPE html><html>", .*supported: JSONL/,
    ],
    'other.json': ['{"truth": 1}', /other.json at byte 12: there is no "traceEvents" list/],
    'broken.json': ['[{"ph":"X"},{"ph" "X"}]', /broken.json at byte 12: not JSON/],
    'number.json': ['[1]', /number.json at byte 1: not a JSON object where an event was expected/],
    'empty.json': ['', /empty.json at byte 0: is empty; supported/],
  };
  for (const [name, [content, message]] of Object.entries(cases))
    await assert.rejects(importFile(t, name, content), { code: 'bad_input', message }, name);
});
