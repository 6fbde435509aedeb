import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { NOMINAL_STEP_NS } from '../../../simulator/serving/cost.js';
import { type SimulateOptions, truth } from '../../../simulator/simulate.js';
import { sharedData } from '../../support/shared-data.js';
import { groupBy, meanOf, median, type SimulatedRow, simulatedRows, sumOf } from '../rows.js';

const run = { ranks: 2, steps: 900, seed: 1, job: 'j' };
const steps = (options: SimulateOptions, rank = 0): SimulatedRow[] =>
  simulatedRows(options).filter((row) => row.phase === 'step' && row.rank === rank);
const between = (rows: SimulatedRow[], from: number, to: number): SimulatedRow[] =>
  rows.filter((row) => row.step >= from && row.step < to);
const near = (value: number, expected: number, by: number, what: string): void =>
  assert.ok(Math.abs(value / expected - 1) < by, `${what}: ${value}, not ${expected}`);

test('phases of a step follow each other: their sum, the gaps and the launches are the step', () => {
  for (const scenario of ['serving-healthy', 'no-cuda-graph']) {
    const rows = simulatedRows({ ...run, scenario, ranks: 4, steps: 200 }).filter((row) => row.phase !== 'host_gap');
    for (const own of groupBy(rows, (row) => `${row.rank} ${row.step}`).values()) {
      const step = own.find((row) => row.phase === 'step') as SimulatedRow;
      const inside = sumOf(own.filter((row) => row.phase !== 'step').map((row) => row.dur));
      const gaps = step.dur - inside;
      // Norms and the like under a graph; launched kernel by kernel, the host's pace.
      assert.ok(step.graph > 0 ? Math.abs(gaps - 96e3) < 10 : gaps > 95e3 && gaps < 0.16 * step.dur, `${gaps}`);
      for (const row of own) assert.ok(row.busy <= row.dur + 1, `${row.phase} ${row.busy} of ${row.dur}`);
    }
  }
});

test('whole steps are as long as the sums of their phases', () => {
  const options = { ...run, scenario: 'serving-scheduled', steps: 2000 };
  const [phases, whole] = [steps(options), steps({ ...options, detail: 'whole' })];
  const typical = (rows: SimulatedRow[]): number =>
    median(rows.filter((row) => row.prefill === 0).map((row) => row.dur));
  near(typical(whole), typical(phases), 0.02, 'decode');
  const rows = simulatedRows({ ...options, steps: 300, detail: 'whole' });
  assert.equal(rows.length, 2 * 2 * 300);
  for (const row of rows)
    if (row.phase !== 'step')
      assert.equal(row.phase, row.prefill === 0 ? 'decode' : row.decode === 0 ? 'prefill' : 'mixed');
});

test('without graphs a step takes the strength longer, and only its launches do', () => {
  for (const strength of [1, 4]) {
    const rows = steps({ ...run, scenario: 'no-cuda-graph', strength, onset: 300 });
    for (const row of rows) assert.equal(row.graph === 0, row.step >= 300);
    const [before, after] = [between(rows, 50, 300), between(rows, 300, 900)];
    // The slower of two hosts sets the pace: about 1.2 times a single one's.
    near(median(after.map((row) => row.dur)), NOMINAL_STEP_NS * (1 + strength) * 1.2, 0.3, 'step');
    assert.deepEqual([...new Set(before.map((row) => row.launches))], [1]);
    assert.deepEqual([...new Set(after.map((row) => row.launches))], [240]);
    const decodes = (list: SimulatedRow[]): SimulatedRow[] => list.filter((row) => row.prefill === 0);
    const busy = (list: SimulatedRow[]): number => median(decodes(list).map((row) => row.busy));
    near(busy(after), busy(before), 0.15, 'GPU time');
  }
  const large = steps({ ...run, scenario: 'no-cuda-graph-large-batches', onset: 300 });
  for (const row of large) assert.equal(row.graph === 0, row.step >= 300 && row.prefill + row.decode > 8);
});

test('long prompts come as often as the strength says, beside decodes, and block them', () => {
  for (const strength of [0.5, 2]) {
    const rows = steps({ ...run, steps: 3000, scenario: 'prefill-blocking', strength });
    for (const row of between(rows, 5, 1000)) assert.ok(row.prefill <= 1024 && row.graph > 0);
    const after = between(rows, 1000, 3000);
    const blocked = after.filter((row) => row.prefill >= 4096);
    for (const row of blocked) assert.ok(row.decode > 0 && row.request.startsWith('long-') && row.dur > 25e6);
    const rest = sumOf(after.filter((row) => row.prefill < 4096).map((row) => row.dur));
    near(sumOf(blocked.map((row) => row.dur)) / rest, strength, 0.15, 'time');
  }
  const alone = steps({ ...run, steps: 200, scenario: 'lookalike-long-prefills' });
  for (const row of alone) assert.ok(row.decode === 0 && row.prefill >= 4096 && row.dur > 25e6);
});

test('a cache too small makes tokens be computed again, the more the smaller it is', () => {
  const shares = [0.2, 0.5, 1].map((strength) => {
    const rows = steps({ ...run, steps: 3000, scenario: 'kv-recompute', strength });
    const before = between(rows, 0, 1000);
    assert.equal(sumOf(before.map((row) => row.preempted + row.recomputed)), 0);
    const most = Math.max(...before.map((row) => row.usage));
    assert.ok(most < 0.9, `${strength}: ${most}`);
    const after = between(rows, 1300, 3000);
    const usage = median(after.map((row) => row.usage));
    assert.ok(usage > 0.7 && Math.max(...after.map((row) => row.usage)) > 0.97, `${strength}: ${usage}`);
    assert.ok(meanOf(after.map((row) => row.waiting)) > 1);
    assert.ok(sumOf(after.map((row) => row.preempted)) > 10);
    return sumOf(after.map((row) => row.recomputed)) / sumOf(after.map((row) => row.prefill + row.decode));
  });
  const [little, some, much] = shares as [number, number, number];
  assert.ok(little > 0.1 && little < some && some < much && much < 0.9, `${shares}`);
  const full = steps({ ...run, steps: 3000, scenario: 'lookalike-kv-full' }).filter((row) => row.step > 100);
  assert.equal(sumOf(full.map((row) => row.preempted + row.recomputed)), 0);
  assert.ok(median(full.map((row) => row.usage)) > 0.7 && meanOf(full.map((row) => row.waiting)) > 3);
});

test('favoured replicas get the strength more requests; together replicas get what there is', () => {
  const options = {
    ...run,
    ranks: 8,
    steps: 2400,
    scenario: 'sched-imbalance',
    strength: 1,
    onset: 400,
    rank: undefined,
  };
  const favoured = truth(options)[0]?.subject.ranks as number[];
  assert.equal(favoured.length, 2);
  const rows = simulatedRows(options).filter((row) => row.phase === 'step');
  for (const together of groupBy(rows, (row) => row.step).values())
    assert.ok(sumOf(together.map((row) => row.running + row.waiting)) <= 64);
  const held = (from: number, to: number, named: boolean): number =>
    meanOf(
      between(rows, from, to)
        .filter((row) => favoured.includes(row.rank) === named)
        .map((row) => row.running + row.waiting),
    );
  near(held(100, 400, true), held(100, 400, false), 0.1, 'before');
  assert.ok(held(1400, 2400, true) > 2 * held(1400, 2400, false));
  const waiting = (named: boolean): number =>
    meanOf(
      between(rows, 1400, 2400)
        .filter((row) => favoured.includes(row.rank) === named)
        .map((row) => row.waiting),
    );
  assert.ok(waiting(true) > 1 && waiting(false) < 0.5, `${waiting(true)} ${waiting(false)}`);
});

test('replicas that step together all wait for the slowest', () => {
  const rows = simulatedRows({ ...run, ranks: 4, steps: 300, scenario: 'lookalike-skew' });
  const ends = groupBy(
    rows.filter((row) => row.group === 'dp-s0-t0'),
    (row) => row.step,
  );
  assert.equal(ends.size, 300);
  for (const sync of ends.values()) {
    assert.equal(sync.length, 4);
    assert.ok(Math.max(...sync.map((row) => row.end)) - Math.min(...sync.map((row) => row.end)) < 5000);
  }
  const skewed = rows.filter((row) => row.phase === 'step' && row.step > 100);
  const running = [0, 1, 2, 3].map((rank) =>
    meanOf(skewed.filter((row) => row.rank === rank).map((row) => row.running)),
  );
  assert.ok(Math.max(...running) / Math.min(...running) < 1.4, `${running}`);
  const burst = simulatedRows({ ...run, ranks: 8, steps: 60, scenario: 'lookalike-burst' }).filter(
    (row) => row.phase === 'step',
  );
  for (const row of burst) if (row.start < 150e6 && row.rank > 0) assert.equal(row.running + row.waiting, 0);
  assert.ok(Math.max(...burst.filter((row) => row.rank === 0).map((row) => row.running + row.waiting)) > 5);
});

test('a rank that launches late all through the step makes the others wait for it, and computes as ever', () => {
  const options = {
    ...run,
    scenario: 'serving-straggler-launch',
    ranks: 4,
    steps: 300,
    onset: 100,
    rank: 2,
    strength: 0.5,
  };
  const typical = (rank: number, phase: string, from: number, to: number): number =>
    median(
      between(simulatedRows(options), from, to)
        .filter((row) => row.rank === rank && row.phase === phase && row.graph === 8)
        .map((row) => row.dur),
    );
  for (const phase of ['attention', 'mlp']) near(typical(2, phase, 100, 300), typical(2, phase, 0, 100), 0.05, phase);
  const longer = typical(0, 'all_reduce', 100, 300) - typical(0, 'all_reduce', 0, 100);
  near(longer, 0.5 * NOMINAL_STEP_NS, 0.1, 'wait');
});

test('a slow link of a decode grows the transfers by the strength; a slow path only those of small messages', () => {
  const transfer = (scenario: string, graph: number, more: Partial<SimulateOptions> = {}): number => {
    const rows = simulatedRows({ ...run, ranks: 4, steps: 400, scenario, ...more });
    return median(
      rows
        .filter((row) => row.phase === 'all_reduce' && row.graph === graph && row.step >= 10)
        .map((row) => row.transfer),
    );
  };
  const healthy = [1, 8, 32, 64].map((graph) => transfer('serving-healthy', graph));
  const slow = (scenario: string, strength: number, onset = 0): number[] =>
    [1, 8, 32, 64].map((graph, i) => transfer(scenario, graph, { strength, onset }) / (healthy[i] as number));
  for (const ratio of slow('serving-nvlink-stall', 0.5)) near(ratio, 1.5, 0.03, 'stall');
  // 8, 64, 256 and 512 KB.
  for (const [i, expected] of [2.5, 2.09, 1.35, 1].entries())
    near(slow('tp-slow-path', 1.5)[i] as number, expected, 0.05, 'path');
  for (const [i, expected] of [1.36, 1.74, 3.4, 4.1].entries())
    near(slow('serving-nvlink-from-start', 2.4)[i] as number, expected, 0.05, 'host memory');
});

test('a restart can bring the slow path: the second run has it, the first does not', () => {
  const options = { ...run, steps: 400, scenario: 'tp-slow-path-restart', onset: 150 };
  assert.deepEqual([truth(options)[0]?.run, truth(options)[0]?.onset_step], ['2', 0]);
  const rows = simulatedRows(options).filter((row) => row.phase === 'all_reduce' && row.graph === 8);
  const typical = (attempt: string): number =>
    median(rows.filter((row) => row.run === attempt).map((row) => row.transfer));
  near(typical('2') / typical('1'), 2.09, 0.1, 'transfer');
  assert.deepEqual([...new Set(rows.map((row) => row.run))], ['1', '2']);
  assert.ok(Math.min(...rows.filter((row) => row.run === '2').map((row) => row.step)) < 5);
});

test('a rank that does not launch leaves the others of its engine in an open all-reduce', () => {
  const options = { ...run, ranks: 4, steps: 60, scenario: 'serving-comm-hang', onset: 20, rank: 1 };
  const rows = simulatedRows(options);
  assert.equal(rows.filter((row) => row.phase === 'step' && row.step >= 20).length, 0);
  const open = groupBy(
    rows.filter((row) => row.open),
    (row) => row.rank,
  );
  assert.deepEqual([...open.keys()].sort(), [0, 2, 3]);
  for (const own of open.values())
    assert.deepEqual([...new Set(own.map((row) => `${row.phase} ${row.group}`))], ['all_reduce tp-s0-d0']);
  const late = simulatedRows({ ...options, hangSeconds: 5 });
  assert.equal(late.filter((row) => row.phase === 'step').length, 4 * 60);
  const gap = late.filter((row) => row.phase === 'host_gap' && row.dur > 1e9);
  assert.deepEqual(
    gap.map((row) => [row.rank, row.step, row.open]),
    [[1, 20, false]],
  );
});

const recorded = sharedData('h200-tp2/phases.parquet');
test('steps launched kernel by kernel are as recorded: one rank sets the pace, the other waits', {
  skip: recorded.skip,
}, async () => {
  const file = await asyncBufferFromFile(recorded.path);
  const columns = ['scenario', 'rank', 'step', 'phase', 'dur_ns', 'prefill_tokens', 'graph_bucket'];
  const raw = (await parquetReadObjects({ file, columns, compressors })).filter(
    (row) =>
      row.scenario === 'no_graph' &&
      Number(row.graph_bucket) === 0 &&
      Number(row.step) >= 250 &&
      Number(row.prefill_tokens) === 0,
  );
  const real = raw.map((row) => ({
    ...{ rank: Number(row.rank), step: Number(row.step), dur: Number(row.dur_ns) },
    phase: String(row.phase) === 'allreduce' ? 'all_reduce' : String(row.phase),
  }));
  type Row = Pick<SimulatedRow, 'rank' | 'step' | 'phase' | 'dur'>;
  /** Medians of each phase on the rank that is slower in a step, and on the other. */
  const medians = (rows: Row[]): Record<string, [number, number]> => {
    const sums = groupBy(rows, (row) => row.step);
    const found: Record<string, [number[], number[]]> = {};
    for (const own of sums.values()) {
      const sum = (rank: number, phase: string): number =>
        sumOf(own.filter((row) => row.rank === rank && row.phase === phase).map((row) => row.dur));
      const slower = sum(0, 'attention') > sum(1, 'attention') ? 0 : 1;
      for (const phase of ['attention', 'mlp', 'all_reduce', 'step']) {
        found[phase] ??= [[], []];
        found[phase][0].push(sum(slower, phase));
        found[phase][1].push(sum(1 - slower, phase));
      }
    }
    return Object.fromEntries(Object.entries(found).map(([phase, [a, b]]) => [phase, [median(a), median(b)]]));
  };
  const simulated = [1, 2, 3, 4, 5, 6].flatMap((seed) =>
    simulatedRows({ ...run, steps: 300, seed, scenario: 'no-cuda-graph-from-start' })
      .filter((row) => row.prefill === 0 && row.phase !== 'host_gap')
      .map((row) => ({ ...row, step: row.step + 1000 * seed })),
  );
  const [mine, theirs] = [medians(simulated), medians(real)];
  for (const phase of ['attention', 'mlp', 'all_reduce', 'step'])
    for (const side of [0, 1] as const) {
      const ratio = (mine[phase]?.[side] as number) / (theirs[phase]?.[side] as number);
      assert.ok(ratio > 0.7 && ratio < 1.4, `${phase} of the ${side === 0 ? 'slower' : 'other'} rank: ${ratio}`);
    }
});
