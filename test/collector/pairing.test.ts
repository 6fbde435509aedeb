import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DrainBuffers, SegmentPipeline } from '../../collector/segment-pipeline.js';
import { openSegment } from '../../native/ts/index.js';
import { M0, SegmentFile, type SegmentSpec, T0 } from './segment-file.js';
import { Collecting, folder, metric, needsAddon, ofPhase, pick } from './support.js';

const us = (n: number): bigint => M0 + BigInt(Math.round(n * 1000));

function segmentOf(dir: string, spec: Partial<SegmentSpec> = {}): SegmentFile {
  return new SegmentFile(dir, { attributes: { job: 'j', rank: 0 }, ...spec });
}

const dropped = (collecting: Collecting, reason: string): Promise<number> =>
  metric(collecting, `picket_collector_phases_dropped_total{reason="${reason}"}`);

describe('begins and ends', needsAddon, () => {
  it('pair within their lane, and phases of one name are summed', () => {
    const dir = folder();
    const segment = segmentOf(dir);
    const [a0, a1] = [0, 1].map((layer) => segment.phase('attention', 'compute', { layer })) as [number, number];
    segment.step({ step: 7, batch: 4, graph: 4, decodeTokens: 4 }, us(0));
    segment.begin(a0, us(1), 1);
    segment.begin(a1, us(2), 2);
    segment.end(a0, us(4), 1);
    segment.end(a1, us(9), 2);
    segment.close();
    const { rows } = new Collecting(dir).run().close();
    assert.deepEqual(pick(rows, 'step', 'phase', 'kind', 'layer', 'start_ns', 'dur_ns', 'count', 'max_ns', 'flags'), [
      {
        step: 7,
        phase: 'attention',
        kind: 0,
        layer: -1,
        start_ns: 1000,
        dur_ns: 10_000,
        count: 2,
        max_ns: 7000,
        flags: 0,
      },
      { step: 7, phase: 'step', kind: 4, layer: -1, start_ns: 1000, dur_ns: 8000, count: 1, max_ns: -1, flags: 0 },
    ]);
    assert.deepEqual(pick(rows, 'rank', 'batch', 'graph', 'decode_tokens', 'prefill_tokens', 'tokens')[0], {
      rank: 0,
      batch: 4,
      graph: 4,
      decode_tokens: 4,
      prefill_tokens: -1,
      tokens: -1,
    });
  });

  it('of sampled phases stand for all of them', () => {
    const dir = folder();
    const segment = segmentOf(dir);
    const forward = segment.phase('forward', 'compute');
    const layer = segment.phase('layer', 'compute', { weight: 3 });
    const reduce = segment.phase('all_reduce', 'comm', { op: 'all_reduce', group: 'tp', weight: 3 });
    segment.step({ step: 1 }, us(0));
    segment.begin(forward, us(0));
    segment.begin(layer, us(10));
    segment.begin(reduce, us(15));
    segment.end(reduce, us(20));
    segment.end(layer, us(22));
    segment.end(forward, us(60));
    segment.close();
    const { rows } = new Collecting(dir).run().close();
    const summed = rows.filter(({ phase }) => phase !== 'step');
    // A layer works 12 us less the 5 us of its collective; three of these leave 45 us of the pass.
    assert.deepEqual(pick(summed, 'phase', 'dur_ns', 'count', 'max_ns'), [
      { phase: 'forward', dur_ns: 45_000, count: 1, max_ns: -1 },
      { phase: 'layer', dur_ns: 21_000, count: 3, max_ns: 7000 },
      { phase: 'all_reduce', dur_ns: 15_000, count: 3, max_ns: 5000 },
    ]);
  });

  it('of equal stamps keep the order in which they were written', () => {
    const dir = folder();
    const segment = segmentOf(dir);
    const [a, b] = [segment.phase('norm', 'compute'), segment.phase('mlp', 'compute')];
    segment.step({ step: 1 }, us(0));
    segment.begin(a, us(10));
    segment.end(a, us(20));
    segment.begin(b, us(20));
    segment.begin(a, us(20));
    segment.end(a, us(20));
    segment.end(b, us(25));
    segment.close();
    const { rows } = new Collecting(dir).run().close();
    assert.deepEqual(pick(rows, 'phase', 'dur_ns', 'count'), [
      { phase: 'norm', dur_ns: 10_000, count: 2 },
      { phase: 'mlp', dur_ns: 5000, count: 1 },
      { phase: 'step', dur_ns: 15_000, count: 1 },
    ]);
  });

  it('nest: communication and copies are no part of the compute around them', () => {
    const dir = folder();
    const segment = segmentOf(dir);
    const forward = segment.phase('forward', 'compute');
    const block = segment.phase('block', 'compute');
    const reduce = segment.phase('tp_reduce', 'comm', { op: 'all_reduce', group: 'tp' });
    const copy = segment.phase('h2d', 'memory');
    segment.step({ step: 1 }, us(0));
    segment.begin(forward, us(0));
    segment.begin(block, us(1));
    segment.begin(reduce, us(2));
    segment.end(reduce, us(6));
    segment.end(block, us(7));
    segment.begin(copy, us(8));
    segment.end(copy, us(9));
    segment.end(forward, us(10));
    segment.close();
    const { rows } = new Collecting(dir).run().close();
    assert.deepEqual(Object.fromEntries(rows.map(({ phase, dur_ns }) => [phase, Number(dur_ns)])), {
      tp_reduce: 4000,
      block: 2000,
      h2d: 1000,
      forward: 5000,
      step: 10_000,
    });
  });

  it('that lack their counterpart are counted, the rest is right', async () => {
    const dir = folder();
    const segment = segmentOf(dir);
    const [a, b] = [segment.phase('attention', 'compute'), segment.phase('mlp', 'compute')];
    segment.step({ step: 1 }, us(0));
    segment.end(a, us(1));
    segment.begin(a, us(2));
    segment.begin(b, us(3));
    segment.end(a, us(5));
    segment.begin(9, us(6));
    segment.end(9, us(7));
    segment.close();
    const collecting = new Collecting(dir).run().close();
    assert.deepEqual(pick(ofPhase(collecting.rows, 'attention'), 'dur_ns', 'flags'), [{ dur_ns: 3000, flags: 1 }]);
    assert.deepEqual(ofPhase(collecting.rows, 'mlp'), []);
    assert.equal(await dropped(collecting, 'unopened'), 1);
    assert.equal(await dropped(collecting, 'unclosed'), 1);
    assert.equal(await dropped(collecting, 'unknown_phase'), 1);
  });

  it('before the first step, or in one without a number, belong to none and are counted', async () => {
    const dir = folder();
    const segment = segmentOf(dir);
    const a = segment.phase('attention', 'compute');
    segment.begin(a, us(1));
    segment.end(a, us(2));
    segment.step({ step: -1 }, us(2));
    segment.begin(a, us(2));
    segment.end(a, us(3));
    segment.step({ step: 5 }, us(3));
    segment.begin(a, us(4));
    segment.end(a, us(6));
    segment.close();
    const collecting = new Collecting(dir).run().close();
    assert.deepEqual(pick(ofPhase(collecting.rows, 'attention'), 'step', 'dur_ns'), [{ step: 5, dur_ns: 2000 }]);
    assert.equal(await dropped(collecting, 'no_step'), 2);
  });

  it('nested without end are given up', async () => {
    const dir = folder();
    const segment = segmentOf(dir);
    const [a, b] = [segment.phase('attention', 'compute'), segment.phase('mlp', 'compute')];
    segment.step({ step: 1 }, us(0));
    for (let i = 0; i < 65; i++) segment.begin(a, us(i));
    segment.begin(b, us(70));
    segment.end(b, us(71));
    segment.close();
    const collecting = new Collecting(dir).run().close();
    assert.deepEqual(pick(ofPhase(collecting.rows, 'mlp'), 'dur_ns', 'flags'), [{ dur_ns: 1000, flags: 1 }]);
    assert.equal(await dropped(collecting, 'unclosed'), 65);
  });
});

describe('a step', needsAddon, () => {
  it('has the phases of a captured graph, whose lane is never told a step, and those that end after the next began', () => {
    const dir = folder();
    const segment = segmentOf(dir);
    const [mlp, reduce] = [segment.phase('mlp', 'compute'), segment.phase('all_reduce', 'comm', { group: 'dp' })];
    for (const step of [10, 11]) {
      const at = step * 100;
      segment.step({ step }, us(at), 0);
      segment.begin(mlp, us(at + 1), 3);
      segment.end(mlp, us(at + 11), 3);
      if (step === 10) segment.begin(reduce, us(at + 12), 4);
      else segment.end(reduce, us(at + 20), 4);
    }
    segment.close();
    const { rows } = new Collecting(dir).run().close();
    assert.deepEqual(
      rows
        .filter(({ phase }) => phase !== 'step')
        .map(({ step, phase, dur_ns }) => [Number(step), phase, Number(dur_ns)]),
      [
        [10, 'mlp', 10_000],
        [10, 'all_reduce', 108_000],
        [11, 'mlp', 10_000],
      ],
    );
  });

  it('is that of the lane where two engines share a process', () => {
    const dir = folder();
    const segment = segmentOf(dir);
    const mlp = segment.phase('mlp', 'compute');
    segment.step({ step: 100 }, us(0), 0);
    segment.step({ step: 5 }, us(1), 1);
    for (const lane of [0, 1]) {
      segment.begin(mlp, us(10 + 100 * lane), lane);
      segment.end(mlp, us(20 + 110 * lane), lane);
    }
    segment.close();
    const { rows } = new Collecting(dir).run().close();
    const found = ofPhase(rows, 'mlp').map(({ step, dur_ns }) => [Number(step), Number(dur_ns)]);
    assert.deepEqual(found.sort(), [
      [100, 10_000],
      [5, 20_000],
    ]);
  });

  it('closes without a phase whose end never comes, once it lies far behind', async () => {
    const dir = folder();
    const segment = segmentOf(dir);
    const [a, b] = [segment.phase('attention', 'compute'), segment.phase('mlp', 'compute')];
    for (let step = 0; step < 12; step++) {
      segment.step({ step }, us(100 * step));
      segment.begin(b, us(100 * step + 1), 2);
      segment.end(b, us(100 * step + 2), 2);
      if (step === 1) segment.begin(a, us(100 * step + 3), 3);
    }
    segment.close();
    const collecting = new Collecting(dir).run().close();
    assert.equal(ofPhase(collecting.rows, 'mlp').length, 12);
    assert.equal(await dropped(collecting, 'unclosed'), 1);
    assert.deepEqual(
      ofPhase(collecting.rows, 'mlp').map(({ flags }) => flags),
      [0, 1, ...Array(10).fill(0)],
    );
  });
});

describe('phases that are open', needsAddon, () => {
  const pipelineOf = (segment: SegmentFile) => {
    const pipeline = new SegmentPipeline(
      openSegment(segment.path, true),
      { epochBase: T0, layerDetail: false, rewinds: 0 },
      { phase: () => {}, hostPhase: () => {} },
    );
    pipeline.drain(new DrainBuffers(), 0, 1);
    return pipeline;
  };
  const shown = (pipeline: SegmentPipeline, since: bigint) =>
    pipeline
      .openPhases(Number(since - M0))
      .map(({ key, layer, step, start, sequence }) => [key.name, layer, step, start, sequence]);

  it('are told with their layer and number once they have lasted; the border of a whole step is not one', () => {
    const segment = segmentOf(folder());
    const step = segment.phase('step', 'step');
    const reduce = [0, 1].map((layer) => segment.phase('all_reduce', 'comm', { layer, group: 'tp' })) as [
      number,
      number,
    ];
    const load = segment.phase('dataload', 'host');
    segment.step({ step: 3 }, us(0));
    segment.begin(step, us(0));
    segment.begin(reduce[0], us(1));
    segment.end(reduce[0], us(2));
    segment.begin(reduce[1], us(3));
    segment.mark(load, us(5), undefined);
    const pipeline = pipelineOf(segment);
    assert.deepEqual(shown(pipeline, us(4)), [['all_reduce', 1, 3, 3000, 1]]);
    assert.deepEqual(shown(pipeline, us(10)), [
      ['all_reduce', 1, 3, 3000, 1],
      ['dataload', -1, 3, 5000, -1],
    ]);
    segment.end(reduce[1], us(20));
    pipeline.drain(new DrainBuffers(), 1000, 1);
    assert.deepEqual(shown(pipeline, us(4)), []);
    assert.equal(pipeline.takeQuiet(999), undefined);
    // An engine that idles within its step: what there is of the step is told once, its host phases too.
    segment.mark(load, us(30), us(40), { thread: 2 });
    pipeline.drain(new DrainBuffers(), 1000, 1);
    const quiet = pipeline.takeQuiet(1000);
    assert.deepEqual([quiet?.number, quiet?.facts[0]?.host.length], [3, 1]);
    assert.equal(pipeline.takeQuiet(1000), undefined);
    segment.close();
  });

  it('are the steps of an engine that stamps nothing else', () => {
    const segment = segmentOf(folder());
    const step = segment.phase('step', 'step');
    segment.step({ step: 3 }, us(0));
    segment.begin(step, us(1));
    assert.deepEqual(shown(pipelineOf(segment), us(4)), [['step', -1, 3, 1000, -1]]);
    segment.close();
  });
});

describe('records that were overwritten unread', needsAddon, () => {
  it('are counted, break the phases around them, and mark the step that follows', async () => {
    const dir = folder();
    const segment = segmentOf(dir, { fences: 64 });
    const [a, b] = [segment.phase('attention', 'compute'), segment.phase('mlp', 'compute')];
    const collecting = new Collecting(dir);
    segment.step({ step: 1 }, us(0));
    segment.begin(a, us(1));
    collecting.run(1);
    // 70 records for 64 places: the first six are gone, the end of the attention among them.
    segment.end(a, us(2));
    for (let i = 0; i < 34; i++) {
      segment.begin(b, us(10 + 2 * i));
      segment.end(b, us(11 + 2 * i));
    }
    segment.step({ step: 2 }, us(100));
    segment.begin(a, us(101));
    segment.end(a, us(103));
    segment.close();
    collecting.run().close();
    const lost = 1 + 68 + 3 - 64;
    assert.equal(await metric(collecting, 'picket_collector_records_lost_total{ring="fence"}'), lost);
    const read = await metric(collecting, 'picket_collector_records_total{ring="fence"}');
    assert.equal(read + lost, 2 + 1 + 68 + 3);
    assert.deepEqual(pick(collecting.rows, 'step', 'phase', 'dur_ns', 'flags'), [
      { step: 2, phase: 'attention', dur_ns: 2000, flags: 4 },
      { step: 2, phase: 'step', dur_ns: 2000, flags: 4 },
    ]);
    assert.equal(await dropped(collecting, 'unclosed'), 1);
    assert.equal(await dropped(collecting, 'no_step'), 30);
    assert.equal(await dropped(collecting, 'unopened'), 1);
  });
});
