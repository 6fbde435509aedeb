import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { EVENTS, NOISE } from '../../simulator/measured.js';
import { Noise } from '../../simulator/noise.js';
import { sharedData } from '../support/shared-data.js';
import { groupBy, meanOf, median, robustDeviation, type SimulatedRow, simulatedRows, sumOf } from './rows.js';

/** What both a recording and a run are reduced to before they are compared. */
type Phase = Pick<SimulatedRow, 'rank' | 'step' | 'phase' | 'dur'> & { readonly place: string };

async function recorded(path: string, columns: string[]): Promise<Record<string, unknown>[]> {
  return parquetReadObjects({ file: await asyncBufferFromFile(path), columns, compressors });
}

/** Logarithms of the two ranks' durations of the same phase of the same step: what one GPU does that the other does not. */
function logRatios(phases: readonly Phase[]): number[] {
  const pairs = [...groupBy(phases, (row) => `${row.place} ${row.phase} ${row.step}`).values()];
  return pairs
    .filter((pair) => pair.length === 2)
    .map(([a, b]) => ((a as Phase).rank < (b as Phase).rank ? 1 : -1) * Math.log((b as Phase).dur / (a as Phase).dur));
}

/** Adds up each rank's phases of a step under one name. */
function summed(phases: readonly Phase[]): Phase[] {
  return [...groupBy(phases, (row) => `${row.place} ${row.rank} ${row.step}`).values()].map((list) => ({
    ...(list[0] as Phase),
    phase: 'sum',
    dur: list.reduce((sum, row) => sum + row.dur, 0),
  }));
}

function correlationAtLag(values: readonly number[], lag: number): number {
  const middle = values.reduce((sum, value) => sum + value, 0) / values.length;
  const centred = values.map((value) => value - middle);
  const dot = (shift: number): number =>
    centred.slice(shift).reduce((sum, value, i) => sum + value * (centred[i] as number), 0);
  return dot(lag) / dot(0);
}

function correlation(a: readonly number[], b: readonly number[]): number {
  const centred = (values: readonly number[]): number[] => values.map((value) => value - meanOf(values));
  const dot = (x: readonly number[], y: readonly number[]): number =>
    sumOf(x.map((value, i) => value * (y[i] as number)));
  const [x, y] = [centred(a), centred(b)];
  return dot(x, y) / Math.sqrt(dot(x, x) * dot(y, y));
}

const within = (simulated: number, measured: number, factor: number, what: string): void =>
  assert.ok(simulated > measured / factor && simulated < measured * factor, `${what}: ${simulated}, not ${measured}`);

/** The recording's own timing: 5.4 ms forward, 10.2 ms backward, a step every 20 ms, two ranks. */
function likeRecordedTraining(seed: number): Phase[] {
  const noise = new Noise(seed, 'job', 2);
  const phases: Phase[] = [];
  for (let step = 0; step < 240; step++) {
    noise.beginStep(step + 1000, step * 20e6, 20e6);
    for (let rank = 0; rank < 2; rank++)
      for (const [phase, offset, dur] of [
        ['forward', 0, 5.4e6],
        ['backward', 5.4e6, 10.2e6],
      ] as const) {
        const factor = noise.compute(rank, step * 20e6 + offset, dur);
        phases.push({ rank, step, phase, dur: dur * factor, place: '' });
      }
  }
  return phases;
}

const train = sharedData('h200-train/phases.parquet');
test('two GPUs differ as the recorded ones do, step by step and from step to step', { skip: train.skip }, async () => {
  const rows = await recorded(train.path, ['scenario', 'rank', 'step', 'phase', 'dur_ns']);
  const healthyPart = new Set(['train_healthy', 'train_gc', 'train_slow_10', 'train_slow_20', 'train_dataload']);
  const real = rows
    .filter((row) => healthyPart.has(String(row.scenario)) && ['forward', 'backward'].includes(String(row.phase)))
    .filter((row) => Number(row.step) < 100)
    .map((row) => ({
      ...{ rank: Number(row.rank), step: Number(row.step), phase: String(row.phase), dur: Number(row.dur_ns) },
      place: String(row.scenario),
    }));
  const measured = [...groupBy(summed(real), (row) => row.place).values()].map(logRatios);
  const simulated = [1, 2, 3, 4, 5, 6, 7, 8].map((seed) => logRatios(summed(likeRecordedTraining(seed))));
  const typical = (runs: number[][], of: (run: number[]) => number): number => median(runs.map(of));
  within(typical(simulated, robustDeviation), typical(measured, robustDeviation), 1.4, 'deviation');
  const memory = (run: number[]): number => correlationAtLag(run, 1);
  assert.ok(Math.abs(typical(simulated, memory) - typical(measured, memory)) < 0.15);
});

const production = sharedData('ndtimeline/stage-imbalance.parquet');
test('microbatches of data parallel peers differ as in a production job', { skip: production.skip }, async () => {
  const rows = await recorded(production.path, ['optype', 'stage', 'dp_rank', 'step', 'mb_id', 'duration']);
  const names: Record<string, string> = { 'forward-compute': 'forward', 'backward-compute': 'backward' };
  const real = rows
    .filter((row) => String(row.optype) in names)
    .map((row) => ({
      ...{ rank: Number(row.dp_rank), step: Number(row.step), dur: Number(row.duration) },
      ...{ phase: `${names[String(row.optype)]} ${row.mb_id}`, place: `stage ${row.stage}` },
    }));
  const options = { scenario: 'healthy', ranks: 8, steps: 150, seed: 3, layout: { dp: 2, pp: 4 }, microbatches: 4 };
  const run = simulatedRows(options)
    .filter((row) => row.step > 1 && ['forward', 'backward'].includes(row.phase))
    .map((row) => ({ ...row, phase: `${row.phase} ${row.microbatch}`, place: `stage ${row.rank >> 1}` }));
  within(robustDeviation(logRatios(run)), robustDeviation(logRatios(real)), 1.2, 'a microbatch');
  within(robustDeviation(logRatios(summed(run))), robustDeviation(logRatios(summed(real))), 1.25, 'a step');
  // What one microbatch takes longer on a stage it takes longer on all, and its neighbour does not.
  for (const phases of [run, real]) {
    const byStage = (stage: number, microbatch: number): number[] =>
      logRatios(phases.filter((row) => row.place === `stage ${stage}` && row.phase === `backward ${microbatch}`));
    assert.ok(correlation(byStage(1, 0), byStage(2, 0)) > 0.6);
    assert.ok(Math.abs(correlation(byStage(1, 0), byStage(2, 2))) < 0.45);
  }
});

const serving = sharedData('h200-tp2/phases.parquet');
test('decode steps under graphs vary as the recorded ones do', { skip: serving.skip }, async () => {
  const rows = await recorded(serving.path, ['scenario', 'rank', 'step', 'phase', 'dur_ns', 'graph_bucket']);
  const names: Record<string, string> = { attention: 'attention', mlp: 'mlp', allreduce: 'all_reduce' };
  const real = [
    ...groupBy(
      rows.filter((row) => row.scenario === 'healthy_2' && Number(row.graph_bucket) > 0 && String(row.phase) in names),
      (row) => `${row.phase} ${row.rank} ${row.step}`,
    ).values(),
  ].map((layers) => ({
    phase: names[String(layers[0]?.phase)] as string,
    place: `${layers[0]?.rank} ${layers[0]?.graph_bucket}`,
    dur: layers.reduce((sum, row) => sum + Number(row.dur_ns), 0),
  }));
  const run = simulatedRows({ scenario: 'serving-healthy', ranks: 2, steps: 500, seed: 3 })
    .filter((row) => row.graph > 0)
    .map((row) => ({ phase: row.phase, place: `${row.rank} ${row.graph}`, dur: row.dur }));
  const places = (list: typeof real, phase: string): Map<string | number, number[]> => {
    const groups = groupBy(
      list.filter((row) => row.phase === phase),
      (row) => row.place,
    );
    return new Map([...groups].map(([place, own]) => [place, own.map((row) => row.dur)]));
  };
  for (const phase of ['attention', 'mlp', 'all_reduce']) {
    const [simulated, measured] = [places(run, phase), places(real, phase)];
    const deviation = (all: Map<string | number, number[]>): number =>
      median([...all.values()].map((durations) => robustDeviation(durations.map(Math.log))));
    within(deviation(simulated), deviation(measured), 1.6, phase);
    assert.equal(measured.size, 8);
    // Runs differ in their transfers.
    const most = phase === 'all_reduce' ? 1.06 + 3 * NOISE.transferRun : 1.06;
    for (const [place, durations] of measured)
      within(median(simulated.get(place) ?? []), median(durations), most, `${phase} of rank and bucket ${place}, ns`);
  }
});

/** How far the medians of runs lie apart, over all message sizes: standard deviation of the logarithm. */
const spreadOfRuns = (rows: readonly { run: string; size: number; ns: number }[]): number => {
  const bySize = [...groupBy(rows, ({ size }) => size).values()].map((own) => {
    const logs = [...groupBy(own, ({ run }) => run).values()].map((run) => Math.log(median(run.map(({ ns }) => ns))));
    const mean = logs.reduce((sum, log) => sum + log, 0) / logs.length;
    return logs.reduce((sum, log) => sum + (log - mean) ** 2, 0) / (logs.length - 1);
  });
  return Math.sqrt(bySize.reduce((sum, variance) => sum + variance, 0) / bySize.length);
};

test('transfers differ from run to run as the recorded ones do', { skip: serving.skip }, async () => {
  const shortestOf = (rows: { run: string; size: number; step: number; ns: number }[]) =>
    [...groupBy(rows, ({ run, size, step }) => `${run} ${size} ${step}`).values()].map((own) =>
      own.reduce((least, row) => (row.ns < least.ns ? row : least)),
    );
  const recordings = (
    await recorded(serving.path, ['scenario', 'rank', 'step', 'phase', 'dur_ns', 'graph_bucket', 'layer'])
  ).filter((row) => row.phase === 'allreduce' && Number(row.graph_bucket) > 0 && Number(row.step) < 250);
  const real = shortestOf(
    [...groupBy(recordings, (row) => `${row.scenario} ${row.rank} ${row.step}`).values()].map((layers) => ({
      run: String(layers[0]?.scenario),
      size: Number(layers[0]?.graph_bucket),
      step: Number(layers[0]?.step),
      ns: layers.reduce((sum, row) => sum + Number(row.dur_ns), 0),
    })),
  ).filter(({ run }) => run !== 'nvlink_slow_path');
  const simulated = shortestOf(
    Array.from({ length: 10 }, (_, seed) => simulatedRows({ scenario: 'serving-healthy', ranks: 2, steps: 120, seed }))
      .flatMap((rows, run) => rows.map((row) => ({ ...row, run: String(run) })))
      .filter((row) => row.phase === 'all_reduce' && row.graph > 0)
      .map(({ run, graph, step, dur }) => ({ run, size: graph, step, ns: dur })),
  );
  within(spreadOfRuns(simulated), spreadOfRuns(real), 1.6, 'spread of runs');
});

test('GPUs keep their speed: a constant spread between the ranks of a job', () => {
  const rows = simulatedRows({ scenario: 'healthy', ranks: 64, steps: 60, seed: 5 }).filter((row) => row.step > 1);
  const speed = (lo: number, hi: number): number[] =>
    [
      ...groupBy(
        rows.filter((row) => row.phase === 'backward' && row.step >= lo && row.step < hi),
        (row) => row.rank,
      ),
    ]
      .sort(([a], [b]) => Number(a) - Number(b))
      .map(([, own]) => Math.log(median(own.map((row) => row.dur))));
  const [early, late] = [speed(2, 31), speed(31, 60)];
  const both = early.map((value, rank) => value + (late[rank] as number));
  const apart = early.map((value, rank) => value - (late[rank] as number));
  within(robustDeviation(both) / 2, NOISE.gpuSpread, 1.4, 'spread');
  assert.ok(robustDeviation(apart) < robustDeviation(both));
});

test('healthy runs hold what looks like faults: slow first steps, checkpoints on all ranks, rare single pauses', () => {
  const rows = simulatedRows({ scenario: 'healthy', ranks: 8, steps: 1000, seed: 2 });
  const step = (n: number): number =>
    median(rows.filter((row) => row.phase === 'step' && row.step === n).map((r) => r.dur));
  const usual = median(rows.filter((row) => row.phase === 'step').map((row) => row.dur));
  within(step(0) / usual, EVENTS.warmupFactors[0], 1.1, 'first step');
  within(step(1) / usual, EVENTS.warmupFactors[1], 1.1, 'second step');
  const saves = rows.filter((row) => row.phase === 'checkpoint');
  assert.deepEqual([...new Set(saves.map((row) => row.step))], [197, 395, 593, 791, 989]);
  assert.equal(saves.length, 5 * 8);
  within(median(saves.map((row) => row.dur)) / usual, EVENTS.checkpointFactor, 1.1, 'checkpoint');
  const pauses = rows.filter((row) => row.phase === 'host_gap' && row.dur > EVENTS.gcMinNs);
  assert.ok(pauses.length >= 2 && pauses.length <= 12, `${pauses.length} pauses`);
  assert.ok(new Set(pauses.map((row) => row.rank)).size > 1);
  for (const pause of pauses) assert.ok(pause.dur < EVENTS.gcMaxNs * 1.01);
});

test('with varying tokens the duration follows them, and all stages of a replica see the same', () => {
  const options = { scenario: 'healthy-tokens-vary', ranks: 8, steps: 60, seed: 2, layout: { dp: 4, pp: 2 } };
  const rows = simulatedRows(options).filter((row) => row.phase === 'forward' && row.step > 1);
  for (const row of rows) assert.ok(row.tokens >= 512 && row.tokens <= 16384 && row.tokens % 64 === 0);
  assert.ok(new Set(rows.map((row) => row.tokens)).size > 50);
  within(robustDeviation(rows.map((row) => Math.log(row.tokens))), 0.6, 1.1, 'spread of tokens');
  const perToken = (lo: number, hi: number): number =>
    median(rows.filter((row) => row.tokens >= lo && row.tokens < hi).map((row) => row.dur / row.tokens));
  assert.ok(perToken(512, 1500) > 1.2 * perToken(8000, 17000), 'a fixed share weighs more in small microbatches');
  for (const [, same] of groupBy(rows, (row) => `${row.rank % 4} ${row.step} ${row.microbatch}`))
    assert.equal(new Set(same.map((row) => row.tokens)).size, 1);
  const plain = simulatedRows({ ...options, scenario: 'healthy' }).filter((row) => row.phase === 'forward');
  assert.deepEqual([...new Set(plain.map((row) => row.tokens))], [4096]);
});
