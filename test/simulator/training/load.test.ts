import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EVENTS, EXPERTS, MEMORY_BOUND_SHARE, TOKENS, TRAINING } from '../../../simulator/measured.js';
import { type SimulateOptions, truth } from '../../../simulator/simulate.js';
import { durationsOf } from '../../../simulator/training/durations.js';
import { groupBy, meanOf, median, robustDeviation, type SimulatedRow, simulatedRows, sumOf } from '../rows.js';

const run = { ranks: 8, steps: 60, seed: 5, job: 'j' };
const STEP_NS = durationsOf({ dp: 8, tp: 1, pp: 1, ep: 1 }, 1, undefined).stepNs;
const settled = (options: SimulateOptions): SimulatedRow[] => simulatedRows(options).filter((row) => row.step > 1);
const of = (rows: SimulatedRow[], phase: string): SimulatedRow[] => rows.filter((row) => row.phase === phase);
const near = (value: number, expected: number, by: number, what: string): void =>
  assert.ok(Math.abs(value / expected - 1) < by, `${what}: ${value}, not ${expected}`);

test('lengths differ between replicas from the onset, by the strength; who is longest changes', () => {
  const forwards = of(
    settled({ ...run, steps: 300, scenario: 'load-imbalance', onset: 100, strength: 0.5 }),
    'forward',
  );
  for (const row of forwards) if (row.step < 100) assert.equal(row.tokens, TRAINING.microbatchTokens);
  const after = forwards.filter((row) => row.step >= 100);
  near(robustDeviation(after.map((row) => Math.log(row.tokens))), 0.5, 0.1, 'spread');
  const longest = [...groupBy(after, (row) => row.step).values()].map(
    (rows) => rows.reduce((a, b) => (b.tokens > a.tokens ? b : a)).rank,
  );
  for (let rank = 0; rank < 8; rank++) assert.ok(longest.filter((other) => other === rank).length < 50);
});

test('every second replica always gets more, or all grow alike', () => {
  const fixed = of(settled({ ...run, scenario: 'load-imbalance-fixed', onset: 20, strength: 0.5 }), 'forward');
  for (const row of fixed) assert.equal(row.tokens, row.step >= 20 && row.rank % 2 === 1 ? 6144 : 4096);
  const growing = of(settled({ ...run, scenario: 'lookalike-lengths-grow' }), 'forward');
  for (const row of growing) assert.ok(Math.abs(row.tokens - 4096 * (1 + row.step / 60)) <= TOKENS.multiple);
  const together = of(settled({ ...run, scenario: 'lookalike-lengths-together' }), 'forward');
  for (const rows of groupBy(together, (row) => row.step).values())
    assert.equal(new Set(rows.map((row) => row.tokens)).size, 1);
  assert.ok(new Set(together.map((row) => row.tokens)).size > 40);
});

test('experts: tokens are neither lost nor made, hot ranks get the strength more, others wait for them', () => {
  const options = { ...run, scenario: 'expert-imbalance', strength: 1.5, onset: 20 };
  const rows = settled(options);
  const hot = truth(options)[0]?.subject.ranks as number[];
  assert.equal(hot.length, 2);
  const moe = of(rows, 'moe');
  for (const pass of groupBy(moe, (row) => `${row.step} ${row.seq}`).values())
    assert.ok(Math.abs(sumOf(pass.map((row) => row.tokens)) - 8 * TRAINING.microbatchTokens) <= 8);
  const tokens = (from: number, to: number, named: boolean): number =>
    median(
      moe
        .filter((row) => row.step >= from && row.step < to && hot.includes(row.rank) === named)
        .map((row) => row.tokens / TRAINING.microbatchTokens),
    );
  near(tokens(2, 20, true), 1, 0.02, 'before');
  near(tokens(20, 60, true), 2.5, 0.02, 'hot');
  near(tokens(20, 60, false), 0.5, 0.02, 'cold');
  // The exchange back is as long as the own work is short.
  for (const rank of [0, 1, 2, 3, 4, 5, 6, 7]) {
    const own = rows.filter((row) => row.rank === rank && row.step >= 20);
    const back = groupBy(of(own, 'all_to_all'), (row) => row.step);
    const work = groupBy(of(own, 'moe'), (row) => row.step);
    for (const [step, exchanges] of back) {
      const combine = exchanges.find((row) => row.seq % 4 === 1) as SimulatedRow;
      const forward = work.get(step)?.find((row) => row.seq === 0) as SimulatedRow;
      assert.equal(forward.end + TRAINING.launchGapNs, combine.start);
    }
  }
  const combines = of(rows, 'all_to_all').filter((row) => row.seq % 4 === 1 && row.step >= 20);
  const waits = [...groupBy(combines, (row) => row.step).values()].map(
    (same) => Math.max(...same.map((row) => row.dur)) - Math.min(...same.map((row) => row.dur)),
  );
  const pass = EXPERTS.share * TRAINING.forwardNs * (1 - TOKENS.forwardFixed);
  near(median(waits), pass * (2.5 - 0.5), 0.1, 'wait for the hot ranks');
});

test('drift: all ranks compute ever longer, up to the strength at the end; a jump is there at once', () => {
  const ratio = (scenario: string, from: number, to: number): number => {
    const compute = (options: SimulateOptions): number =>
      meanOf(
        of(settled(options), 'backward')
          .filter((row) => row.step >= from && row.step < to)
          .map((row) => row.dur),
      );
    return compute({ ...run, scenario, strength: 0.4, onset: 20 }) / compute({ ...run, scenario: 'healthy' });
  };
  near(ratio('step-drift', 5, 20), 1, 0.005, 'before');
  near(ratio('step-drift', 20, 60), 1 + (0.4 * 41) / 80, 0.01, 'on average');
  near(ratio('step-drift', 58, 60), 1.395, 0.01, 'at the end');
  near(ratio('step-jump', 20, 24), 1.4, 0.01, 'jump');
});

test('a slow memory slows the optimizer by the strength and a share of the compute', () => {
  const options = { ...run, scenario: 'straggler-memory', strength: 0.8, onset: 20, rank: 3 };
  const after = (scenario: string, phase: string): number => {
    const rows = settled(scenario === 'healthy' ? { ...run, scenario } : options);
    return median(
      of(rows, phase)
        .filter((row) => row.rank === 3 && row.step >= 20)
        .map((row) => row.dur),
    );
  };
  near(after('slow', 'optimizer') / after('healthy', 'optimizer'), 1.8, 0.01, 'optimizer');
  near(after('slow', 'backward') / after('healthy', 'backward'), 1 + 0.8 * MEMORY_BOUND_SHARE, 0.02, 'backward');
});

test('a stall is there once, or in every second step, for as long as the strength says', () => {
  const inputs = (scenario: string): number[] => {
    const rows = simulatedRows({ ...run, scenario, onset: 20, strength: 6 }).filter((row) => !row.open);
    return Array.from({ length: 60 }, (_, step) =>
      median(
        of(rows, 'dataload')
          .filter((row) => row.step === step)
          .map((row) => row.dur / STEP_NS),
      ),
    );
  };
  for (const [step, input] of inputs('transient-stall').entries())
    assert.ok(step === 20 ? Math.abs(input - 6) < 0.2 : input < 0.1, `${step} ${input}`);
  for (const [step, input] of inputs('periodic-stall').entries())
    assert.ok(step >= 20 && step % 2 === 0 ? Math.abs(input - 6) < 0.2 : input < 0.1, `${step} ${input}`);
  const gaps = of(
    simulatedRows({ ...run, scenario: 'transient-stall-rank', onset: 20, strength: 6, rank: 1 }),
    'host_gap',
  );
  const late = gaps.filter((row) => row.dur > 1e9);
  assert.deepEqual(
    late.map((row) => [row.rank, row.step]),
    [[1, 20]],
  );
});

test('checkpoints and evaluation of all ranks or of one are reported while they last', () => {
  const saves = simulatedRows({ ...run, steps: 200, scenario: 'lookalike-saves' });
  const every = (steps: number): number => Math.floor(steps / EVENTS.frequent);
  for (const [phase, steps] of [
    ['checkpoint', every(EVENTS.checkpointSteps)],
    ['evaluation', every(EVENTS.evaluationSteps)],
  ] as const) {
    const rows = of(saves, phase).filter((row) => !row.open);
    const due = Array.from({ length: Math.floor(200 / steps) }, (_, i) => (i + 1) * steps - 1);
    assert.deepEqual([...new Set(rows.map((row) => row.step))], due);
    assert.equal(rows.length, 8 * due.length);
    for (const row of rows) {
      const open = saves.filter((other) => other.open && other.phase === phase && other.rank === row.rank);
      assert.equal(open.filter((other) => other.start === row.start).length, Math.ceil(row.dur / 1e9) - 1);
    }
  }
  const alone = simulatedRows({ ...run, scenario: 'lookalike-saves-alone' });
  assert.deepEqual([...new Set(of(alone, 'checkpoint').map((row) => row.rank))], [0]);
  const waits = of(alone, 'all_reduce').filter((row) => row.step === 33 && !row.open);
  for (const row of waits) assert.equal(row.dur > 1e9, row.rank !== 0);
});

test('a restart begins another run some steps back, slowly, after a while', () => {
  const rows = simulatedRows({ ...run, scenario: 'lookalike-restart' });
  const steps = (attempt: string): number[] => [
    ...new Set(
      of(rows, 'step')
        .filter((row) => row.run === attempt)
        .map((row) => row.step),
    ),
  ];
  assert.deepEqual([steps('1')[0], steps('1').at(-1)], [0, 29]);
  assert.deepEqual([steps('2')[0], steps('2').at(-1)], [30 - EVENTS.restartRepeats, 59 - EVENTS.restartRepeats]);
  const [before, after] = ['1', '2'].map((attempt) => of(rows, 'step').filter((row) => row.run === attempt));
  const first = after?.[0] as SimulatedRow;
  assert.ok(first.start - Math.max(...(before ?? []).map((row) => row.end)) > EVENTS.restartNs);
  near(first.dur / median((after ?? []).map((row) => row.dur)), EVENTS.warmupFactors[0], 0.1, 'first step');
  const healthy = simulatedRows({ ...run, scenario: 'healthy-load-training', steps: 1100 });
  assert.deepEqual([...new Set(healthy.map((row) => row.run))], ['1', '2', '3']);
});

test('healthy stages differ by less than 4.5 %, and collections go round', () => {
  const stages = groupBy(of(settled({ ...run, scenario: 'lookalike-stages' }), 'backward'), (row) => row.rank >> 1);
  const middles = [...stages.values()].map((rows) => median(rows.map((row) => row.dur)));
  const apart = Math.max(...middles) / Math.min(...middles);
  assert.ok(apart > 1.005 && apart < 1 + EVENTS.stageSpread + 0.01, `${apart}`);
  const gaps = of(settled({ ...run, scenario: 'lookalike-collections' }), 'host_gap');
  const pauses = gaps.filter((row) => Math.abs(row.dur / STEP_NS - EVENTS.rotatingGcFactor) < 0.01);
  for (const own of groupBy(pauses, (row) => row.rank).values())
    for (const [i, row] of own.entries())
      if (i > 0) assert.equal(row.step - (own[i - 1] as SimulatedRow).step, EVENTS.rotatingGcSteps);
  assert.equal(new Set(pauses.map((row) => row.rank)).size, 8);
});

test('a larger model takes longer in all its phases alike', () => {
  const options = { ...run, scenario: 'healthy', layout: { dp: 2, pp: 4 } };
  const [small, large] = [settled(options), settled({ ...options, stepSeconds: 16 })];
  const ratio = (phase: string): number =>
    median(of(large, phase).map((row) => row.dur)) / median(of(small, phase).map((row) => row.dur));
  near(median(of(large, 'step').map((row) => row.dur)), 16e9, 0.06, 'step');
  for (const phase of ['forward', 'backward', 'reduce_scatter', 'optimizer', 'dataload'])
    near(ratio(phase), ratio('forward'), 0.1, phase);
});

test('processes that contend are late in turn: up to the strength, a different one each step, on one host only', () => {
  const options = { ...run, scenario: 'straggler-contention', gpusPerHost: 4, rank: 5, onset: 20, strength: 0.5 };
  assert.deepEqual(truth(options)[0]?.subject, { hosts: ['node-0001'], ranks: [4, 5, 6, 7] });
  const gaps = of(settled(options), 'host_gap').filter((row) => row.step >= 20 && row.step < 52);
  const late = (row: SimulatedRow): boolean => row.dur > 0.2 * STEP_NS;
  for (const row of gaps)
    if (row.rank < 4) assert.ok(row.dur < 0.01 * STEP_NS || row.dur > 0.08e9, 'a collection at most');
  for (const rank of [4, 5, 6, 7]) {
    const own = gaps.filter((row) => row.rank === rank);
    near(own.filter(late).length / own.length, 6 / 8, 0.1, 'late steps');
    near(Math.max(...own.map((row) => row.dur)), 0.5 * STEP_NS, 0.05, 'longest');
  }
  const latest = [...groupBy(gaps, (row) => row.step).values()].map((rows) =>
    rows.reduce((a, b) => (b.dur > a.dur ? b : a)),
  );
  assert.equal(new Set(latest.map((row) => row.rank)).size, 4);
});
