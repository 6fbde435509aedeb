import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { Baseline, type Population } from '../../../detector/baseline/baseline.js';
import type { BaselineFile } from '../../../detector/baseline/format.js';
import { bucketOf, STEP_TIME } from '../../../detector/baseline/shape.js';
import type { TrainingRun } from '../../../detector/baseline/training-set.js';
import { median } from '../../../detector/reference/statistics.js';
import { newJobMeta } from '../../../protocol/job-meta.js';
import { sharedData } from '../../support/shared-data.js';
import { recordedRuns, train } from './support.js';

/** What recorded runs of two H200 GPUs teach, and what it says of others of them. */

const tp2 = sharedData('h200-tp2');
/** All of them are healthy before step 250, the first two to the end. */
const RUNS = [
  'healthy',
  'healthy_2',
  'compute_straggler',
  'host_straggler',
  'nvlink_congestion',
  'no_graph',
  'prefill_blocking',
  'kv_recompute',
  'hang',
  'gc_pause',
];
const TARGETS = ['attention', 'mlp', 'compute', 'step', STEP_TIME];
const DECODE = /^graph-\d+\/decode$/;

const populationOf = (file: BaselineFile): Population => new Baseline(file).population(newJobMeta('any')) as Population;

const untilOnset = (run: TrainingRun): TrainingRun => ({
  ...run,
  work: run.work.filter(({ step }) => step < 250 || run.job.startsWith('healthy')),
  transfers: run.transfers.filter(({ step }) => step < 250 || run.job.startsWith('healthy')),
});

class Coverage {
  readonly shares = new Map<string, { inside: number; all: number }>();

  add(key: string, inside: boolean): void {
    const share = this.shares.get(key) ?? { inside: 0, all: 0 };
    this.shares.set(key, share);
    share.all++;
    if (inside) share.inside++;
  }

  take(population: Population, { work, transfers }: TrainingRun): void {
    for (const { stage, shape, durations } of work)
      for (const target of DECODE.test(bucketOf(shape)) ? TARGETS : []) {
        const band = population.expectedWork(target, stage, shape);
        const duration = durations.get(target) as number;
        assert.ok(band, `${target} of ${JSON.stringify(shape)}`);
        this.add(`${target} ${bucketOf(shape)}`, duration >= band.q05 && duration <= band.q95);
      }
    for (const { transfers: one } of transfers.filter(({ transfers: { launch } }) => launch === 'graph')) {
      const band = population.expectedTransfer(one);
      assert.ok(band);
      this.add(`all_reduce ${one.bytes}`, one.transferNs >= band.q05 && one.transferNs <= band.q95);
    }
  }

  /** Share of a key, or of all whose key contains `part`. */
  of(part: string): number {
    const own = [...this.shares].filter(([key]) => key.includes(part));
    assert.ok(own.length > 0, part);
    return own.reduce((sum, [, { inside, all }]) => sum + inside / all, 0) / own.length;
  }
}

describe('a baseline of recorded healthy runs', { skip: tp2.skip }, () => {
  let file: BaselineFile;
  let population: Population;
  let seconds: number;

  before(async () => {
    const started = performance.now();
    file = await train(await recordedRuns(tp2.path, ['healthy', 'healthy_2']));
    seconds = (performance.now() - started) / 1000;
    population = populationOf(file);
  });

  it('is learnt well within a minute', () => {
    assert.ok(seconds < 60, `${seconds} s`);
    assert.deepEqual(
      file.trained.runs.map(({ steps, left_out }) => [steps, left_out]),
      [
        [500, 1],
        [500, 1],
      ],
    );
  });

  it('is calibrated on held-out steps of its own runs, bucket by bucket', () => {
    const buckets = Object.entries(file.populations[0]?.roles[0]?.buckets ?? {}).filter(([name]) => DECODE.test(name));
    assert.equal(buckets.length, 4);
    for (const [bucket, { targets }] of buckets) {
      const shares = TARGETS.map((target) => targets[target]?.coverage as number);
      const mean = shares.reduce((sum, share) => sum + share, 0) / shares.length;
      assert.ok(mean >= 0.85 && mean <= 0.95, `${bucket}: ${shares}`);
    }
  });

  it('finds the all-reduces of a run without peer access far outside of what it expects', async () => {
    const [slow] = await recordedRuns(tp2.path, ['nvlink_slow_path']);
    const inGraphs = (slow?.transfers ?? [])
      .map(({ transfers }) => transfers)
      .filter(({ launch }) => launch === 'graph');
    const sizes = new Set(inGraphs.map(({ bytes }) => bytes));
    assert.equal(sizes.size, 4);
    for (const bytes of sizes) {
      const own = inGraphs.filter((one) => one.bytes === bytes);
      const [shape] = own;
      assert.ok(shape);
      const observed = median(own.map(({ transferNs }) => transferNs));
      const expected = population.expectedTransfer(shape);
      assert.ok(expected && observed > 1.2 * expected.q95, `${observed} against ${expected?.q95}`);
      assert.ok((population.transferPValue(shape, observed) as number) < 1e-4);
    }
  });

  it('expects CUDA graphs where a run launches everything eagerly from its first step', async () => {
    const [eager] = await recordedRuns(tp2.path, ['no_graph_from_start']);
    const decodes = (eager?.work ?? []).filter(({ shape }) => shape.decodeTokens > 0);
    assert.ok(decodes.length > 0);
    for (const { stage, shape, durations } of decodes) {
      assert.equal(shape.graph, 0);
      assert.equal(population.expectsGraph(shape.decodeTokens), true);
      assert.equal(population.expectedWork('step', stage, shape), undefined, 'eager decodes were never seen');
      const withGraph = population.graphUse(shape.decodeTokens)?.with_graph?.q95 as number;
      assert.ok((durations.get(STEP_TIME) as number) > 2 * withGraph);
    }
  });
});

describe('baselines of half of the recorded runs', { skip: tp2.skip }, () => {
  it('hold nine of ten steps of the other half', async () => {
    const runs = (await recordedRuns(tp2.path, RUNS)).map(untilOnset);
    const coverage = new Coverage();
    for (const half of [0, 1]) {
      const population = populationOf(await train(runs.filter((_, i) => i % 2 === half)));
      for (const run of runs.filter((_, i) => i % 2 !== half)) coverage.take(population, run);
    }
    for (const [key, { inside, all }] of coverage.shares) assert.ok(inside / all >= 0.8, `${key}: ${inside} of ${all}`);
    for (const target of ['attention', 'mlp', 'compute', 'step ', STEP_TIME, 'all_reduce']) {
      const share = coverage.of(target);
      assert.ok(share >= 0.85 && share <= 0.97, `${target}: ${share}`);
    }
  });
});
