import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { Baseline, loadBaseline, type Population } from '../../../detector/baseline/baseline.js';
import { type BaselineFile, formatBaseline } from '../../../detector/baseline/format.js';
import { STEP_TIME, type WorkShape } from '../../../detector/baseline/shape.js';
import { newJobMeta } from '../../../protocol/job-meta.js';
import type { PhaseBatch } from '../../../protocol/phase-batch.js';
import { trace } from '../../support/trace.js';
import { runsOf, train } from './support.js';

const FACTS = { engine: 'vllm', model: 'toy', device: 'H200', config_hash: 'a' };
const META = newJobMeta('other', FACTS);
const MB = 1 << 20;
/** Decode batches in turn; above 64 the engine has no graph. */
const BATCHES = [4, 16, 64, 128];
const decodeMs = (batch: number): number => (batch > 64 ? 9 : 2 + 0.05 * batch);

/** A healthy serving job of two ranks: each step decodes, and all-reduces a message that grows with the batch. */
function* serving(job: string, meta: Partial<typeof META> = FACTS): Generator<PhaseBatch> {
  const steps = trace({
    ranks: 2,
    steps: 400,
    period: 20,
    meta: { ...meta, job, groups: { tp: [0, 1] } },
    phases: (step) => {
      const batch = BATCHES[step % BATCHES.length] as number;
      const graph = batch > 64 ? 0 : batch;
      const shape = { prefill_tokens: 0, decode_tokens: batch, context_tokens: 100 * batch, batch, graph };
      return [
        { phase: 'decode', ms: decodeMs(batch), ...shape },
        { phase: 'all_reduce', ms: 0.01 * batch, group: 'tp', bytes: batch * MB, seq: step, graph },
      ];
    },
  });
  for (const batch of steps) yield { ...batch, meta: { ...batch.meta, job } };
}

const shapeOf = (batch: number, facts: Partial<WorkShape> = {}): WorkShape => ({
  prefillTokens: 0,
  decodeTokens: batch,
  contextTokens: 100 * batch,
  batch,
  tokens: batch,
  microbatches: 1,
  graph: batch > 64 ? 0 : batch,
  ...facts,
});

const close = (value: number | undefined, expected: number, share = 0.03): void =>
  assert.ok(value !== undefined && Math.abs(value / expected - 1) < share, `${value} is not about ${expected}`);

describe('a baseline', () => {
  let file: BaselineFile;
  let population: Population;

  before(async () => {
    file = await train(runsOf([...serving('a'), ...serving('b')]));
    population = loadBaseline(formatBaseline(file)).population(META) as Population;
  });

  it('expects of a batch what it took, as phase, class and step', () => {
    for (const batch of BATCHES) {
      const shape = shapeOf(batch);
      for (const target of ['decode', 'compute']) {
        const band = population.expectedWork(target, -1, shape);
        close(band?.q50, 1e6 * decodeMs(batch));
        assert.ok(band && band.q05 < band.q50 && band.q50 < band.q95 && band.q95 < 1.06 * band.q05);
      }
      assert.ok((population.expectedWork(STEP_TIME, -1, shape)?.q50 as number) > 1e6 * decodeMs(batch));
    }
    assert.equal(population.expectedWork('all_reduce', -1, shapeOf(4)), undefined, 'waits for others are no own work');
  });

  it('tells healthy from slow durations', () => {
    const p = (ms: number): number => population.pValue('decode', -1, shapeOf(16), 1e6 * ms) as number;
    assert.ok(p(decodeMs(16)) > 0.2);
    assert.ok(p(1.1 * decodeMs(16)) < 0.01);
    assert.ok(p(1.2 * decodeMs(16)) < p(1.1 * decodeMs(16)));
    assert.ok(p(0.9 * decodeMs(16)) > 0.95);
  });

  it('knows what it does not know', () => {
    const expected = (shape: WorkShape, target = 'decode', stage = -1) => population.expectedWork(target, stage, shape);
    assert.equal(expected(shapeOf(16), 'forward'), undefined, 'target');
    assert.equal(expected(shapeOf(16), 'decode', 1), undefined, 'stage');
    assert.equal(expected(shapeOf(16, { graph: 8 })), undefined, 'graph');
    assert.equal(expected(shapeOf(16, { graph: 0 })), undefined, 'eager where a graph is expected');
    assert.equal(expected(shapeOf(16, { contextTokens: 10_000 })), undefined, 'range');
    assert.equal(expected(shapeOf(16, { contextTokens: Number.NaN })), undefined, 'context');
    assert.equal(expected(shapeOf(16, { decodeTokens: Number.NaN })), undefined, 'mix');
    for (const observed of [Number.NaN, 0, -1, Number.POSITIVE_INFINITY])
      assert.equal(population.pValue('decode', -1, shapeOf(16), observed), undefined);
    for (const [field, value] of Object.entries({ model: 'other', config_hash: 'b', engine_version: '2' }))
      assert.equal(new Baseline(file).population({ ...META, [field]: value }), undefined, field);
    assert.equal(new Baseline(file).population(newJobMeta('unknown')), undefined);
  });

  it('expects transfers of the sizes it saw and of those between, and their bus bandwidth', () => {
    const shape = { op: 'all_reduce', ranks: 2, hosts: 1, launch: 'graph', bytes: 16 * MB } as const;
    const seen = population.expectedTransfer(shape);
    close(seen?.q50, 160_000);
    close(seen?.busbw?.q50, (16 * MB) / 160_000);
    assert.ok(seen?.busbw && seen.busbw.q05 < seen.busbw.q50 && seen.busbw.q50 < seen.busbw.q95);
    close(population.expectedTransfer({ ...shape, bytes: 32 * MB })?.q50, 320_000, 0.05);
    assert.ok((population.transferPValue(shape, 160_000) as number) > 0.2);
    assert.ok((population.transferPValue(shape, 240_000) as number) < 0.01);
    for (const other of [
      { bytes: 256 * MB },
      { bytes: MB },
      { bytes: Number.NaN },
      { op: 'all_gather' },
      { ranks: 4 },
      { hosts: 2 },
      { launch: 'unknown' as const },
    ])
      assert.equal(population.expectedTransfer({ ...shape, ...other }), undefined, JSON.stringify(other));
  });

  it('knows which batches run as CUDA graphs, and what they take', () => {
    for (const batch of [1, 4, 10, 64]) assert.equal(population.expectsGraph(batch), true, `${batch}`);
    assert.equal(population.expectsGraph(128), false);
    for (const batch of [100, 200, 0, Number.NaN]) assert.equal(population.expectsGraph(batch), undefined, `${batch}`);
    const [graph, eager] = [population.graphUse(16), population.graphUse(128)];
    assert.deepEqual([graph?.bucket, graph?.eager, eager?.bucket, eager?.with_graph], [16, null, null, null]);
    close(graph?.with_graph?.q50, population.expectedWork(STEP_TIME, -1, shapeOf(16))?.q50 as number);
  });

  it('is the same again from the same rows and seed, and another from another seed', async () => {
    const runs = runsOf([...serving('a'), ...serving('b')]);
    assert.equal(formatBaseline(await train(runs)), formatBaseline(file));
    assert.notEqual(formatBaseline(await train(runs, 2)), formatBaseline(file));
  });

  it('keeps engines, models, devices and configurations apart', async () => {
    const { populations, trained } = await train(runsOf([...serving('a'), ...serving('b', { model: 'other' })]));
    assert.deepEqual(
      populations.map(({ key, runs }) => [key.model, key.engine, runs]),
      [
        ['toy', 'vllm', 1],
        ['other', '', 1],
      ],
    );
    assert.deepEqual(
      trained.runs.map(({ job, steps, left_out, population }) => [job, steps, left_out, population]),
      [
        ['a', 400, 1, 0],
        ['b', 400, 1, 1],
      ],
    );
  });
});

describe('what is learnt from', () => {
  it('leaves out steps inside incidents, and learns the rest', () => {
    const [run] = runsOf(
      trace({
        ranks: 4,
        steps: 200,
        period: 20,
        meta: { groups: { dp: [0, 1, 2, 3] } },
        phases: (step, rank) => {
          const slow = step >= 120 && rank === 2 ? 1.5 : 1;
          const wait = step >= 120 && rank !== 2 ? 5 : 0;
          return [
            { phase: 'forward', ms: 10 * slow, tokens: 1000 },
            { phase: 'all_reduce', ms: 1 + wait, group: 'dp', bytes: MB, seq: step },
          ];
        },
      }),
    );
    assert.ok(run);
    const steps = new Set(run.work.map(({ step }) => step));
    assert.ok(steps.has(1) && steps.has(110));
    assert.ok(
      [...steps].every((step) => step < 120 && step > 0),
      `learnt until ${Math.max(...steps)}`,
    );
    assert.equal(run.leftOut, 200 - steps.size);
    assert.ok(run.transfers.every(({ step }) => step < 120));
  });

  it('leaves out steps that a rank is missing from', () => {
    const spec = { ranks: 2, steps: 60, period: 20 };
    const [run] = runsOf(
      trace({ ...spec, phases: (step, rank) => (rank === 1 && step === 30 ? [] : [{ phase: 'forward', ms: 10 }]) }),
    );
    assert.ok(run && run.work.length > 0);
    assert.ok(!run.work.some(({ step }) => step === 30));
  });
});
