import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FLAG, KIND } from '../../protocol/vocabulary.js';
import { M0, SegmentFile } from './segment-file.js';
import { Collecting, folder, needsAddon, ofPhase, pick } from './support.js';

const us = (n: number): bigint => M0 + BigInt(Math.round(n * 1000));

/** Ranks of a group on this host, each with the durations of its collectives in step 1, in microseconds. */
function groupOf(dir: string, durations: Record<number, number[]>, gpu: Record<number, string> = {}): void {
  const ranks = Object.keys(durations).map(Number);
  for (const rank of ranks) {
    const uuid = gpu[rank];
    const segment = new SegmentFile(dir, {
      attributes: { job: 'j', run: 'a', rank, groups: { tp: ranks } },
      pid: 10 + rank,
      ...(uuid && { gpu: uuid }),
    });
    if (uuid) segment.clock(M0, M0, M0 + 1_769_995_000_000_000_000n);
    const layers = (durations[rank] as number[]).map((_, layer) =>
      segment.phase('all_reduce', 'comm', { layer, op: 'all_reduce', group: 'tp', bytes: 1000 }),
    );
    segment.step({ step: 1 }, us(0));
    (durations[rank] as number[]).forEach((duration, layer) => {
      segment.begin(layers[layer] as number, us(1000 * layer));
      segment.end(layers[layer] as number, us(1000 * layer + duration));
    });
    segment.close();
  }
}

describe('collectives', needsAddon, () => {
  it('of a group on this host are summed, with the sum of their minima over the ranks', () => {
    const dir = folder();
    groupOf(dir, { 0: [30, 12, 11], 1: [11, 40, 12] });
    const { rows } = new Collecting(dir).run().close();
    const columns = ['rank', 'count', 'dur_ns', 'max_ns', 'transfer_ns', 'seq', 'bytes', 'op', 'group'] as const;
    const common = { count: 3, transfer_ns: 34_000, seq: -1, bytes: 3000, op: 'all_reduce', group: 'tp' };
    assert.deepEqual(pick(ofPhase(rows, 'all_reduce'), ...columns), [
      { rank: 0, dur_ns: 53_000, max_ns: 30_000, ...common },
      { rank: 1, dur_ns: 63_000, max_ns: 40_000, ...common },
    ]);
  });

  it('have no transfer where a rank has others', () => {
    const dir = folder();
    groupOf(dir, { 0: [30, 12], 1: [11] });
    const { rows } = new Collecting(dir).run().close();
    assert.deepEqual(
      ofPhase(rows, 'all_reduce').map(({ transfer_ns }) => Number(transfer_ns)),
      [-1, -1],
    );
  });

  it('have no transfer where the times come from two clocks, and the clock of each rank is told', () => {
    const dir = folder();
    groupOf(dir, { 0: [41_057], 1: [41_060], 2: [5] }, { 0: 'GPU-0', 1: 'GPU-1' });
    const collecting = new Collecting(dir).run().close();
    assert.deepEqual(
      ofPhase(collecting.rows, 'all_reduce').map(({ transfer_ns }) => Number(transfer_ns)),
      [-1, -1, -1],
    );
    assert.deepEqual(
      collecting.batches[0]?.meta.ranks.map(({ rank, gpu, clock }) => [rank, gpu, clock]),
      [
        [0, 'GPU-0', 'gpu'],
        [1, 'GPU-1', 'gpu'],
        [2, undefined, 'host'],
      ],
    );
  });

  it('have no transfer where a rank died before its own', () => {
    const dir = folder();
    groupOf(dir, { 0: [30], 1: [11] });
    const late = new SegmentFile(dir, {
      attributes: { job: 'j', run: 'b', rank: 0, groups: { tp: [0, 1] } },
      pid: 30,
      died: true,
    });
    const other = new SegmentFile(dir, {
      attributes: { job: 'j', run: 'b', rank: 1, groups: { tp: [0, 1] } },
      pid: 31,
    });
    for (const segment of [late, other]) {
      const reduce = segment.phase('all_reduce', 'comm', { op: 'all_reduce', group: 'tp' });
      segment.step({ step: 1 }, us(0));
      if (segment === other) continue;
      segment.begin(reduce, us(1));
      segment.end(reduce, us(9));
    }
    const collecting = new Collecting(dir).run().close();
    const ofRun = (run: string) =>
      collecting.batches.filter(({ meta }) => meta.run === run).flatMap(({ rows }) => rows);
    assert.deepEqual(pick(ofPhase(ofRun('a'), 'all_reduce'), 'rank', 'transfer_ns'), [
      { rank: 0, transfer_ns: 11_000 },
      { rank: 1, transfer_ns: 11_000 },
    ]);
    assert.deepEqual(pick(ofPhase(ofRun('b'), 'all_reduce'), 'rank', 'transfer_ns', 'flags'), [
      { rank: 0, transfer_ns: -1, flags: FLAG.partial },
    ]);
  });

  it('that other hosts share stay one row a number: the engine’s own, else their order in the step', () => {
    const dir = folder();
    const segment = new SegmentFile(dir, { attributes: { job: 'j', rank: 0, groups: { dp: [0, 8] } } });
    const reduce = segment.phase('grads', 'comm', { op: 'all_reduce', group: 'dp' });
    const gather = segment.phase('all_gather', 'comm', { group: 'dp', bytes: 64 });
    segment.step({ step: 3 }, us(0));
    for (const [i, sequence] of [70, 71].entries()) {
      segment.call(reduce, { bytes: 4096 + i, sequence }, us(10 * i), 2);
      segment.begin(reduce, us(10 * i), 2);
      segment.end(reduce, us(10 * i + 5 + i), 2);
      segment.begin(gather, us(50 + 10 * i), 2);
      segment.end(gather, us(51 + 10 * i), 2);
    }
    segment.close();
    const { rows } = new Collecting(dir).run().close();
    assert.deepEqual(pick(ofPhase(rows, 'grads'), 'seq', 'start_ns', 'dur_ns', 'bytes', 'op', 'count', 'transfer_ns'), [
      { seq: 70, start_ns: 0, dur_ns: 5000, bytes: 4096, op: 'all_reduce', count: 1, transfer_ns: -1 },
      { seq: 71, start_ns: 10_000, dur_ns: 6000, bytes: 4097, op: 'all_reduce', count: 1, transfer_ns: -1 },
    ]);
    assert.deepEqual(pick(ofPhase(rows, 'all_gather'), 'seq', 'bytes', 'op'), [
      { seq: 0, bytes: 64, op: 'all_gather' },
      { seq: 1, bytes: 64, op: 'all_gather' },
    ]);
  });
});

describe('layer detail', needsAddon, () => {
  it('keeps a row a layer; layers of one id are told by their order, repeats of a layer by number', () => {
    const dir = folder();
    const segment = new SegmentFile(dir, { attributes: { job: 'j', rank: 0 } });
    const mlp = [0, 1].map((layer) => segment.phase('mlp', 'compute', { layer }));
    const norm = segment.phase('norm', 'compute');
    const once = segment.phase('sampling', 'compute');
    segment.step({ step: 1 }, us(0));
    let at = 0;
    for (const phase of [...mlp, mlp[1] as number, norm, norm, once]) {
      segment.begin(phase, us(at));
      segment.end(phase, us(at + 1));
      at += 2;
    }
    segment.close();
    const { rows } = new Collecting(dir, { layer_detail: true }).run().close();
    assert.deepEqual(
      rows.map(({ phase, layer, seq }) => [phase, layer, Number(seq)]),
      [
        ['mlp', 0, -1],
        ['mlp', 1, -1],
        ['mlp', 1, 1],
        ['norm', 0, -1],
        ['norm', 1, -1],
        ['sampling', -1, -1],
        ['step', -1, -1],
      ],
    );
  });
});

describe('what the engine tells of a step', needsAddon, () => {
  it('gives rows by microbatch, of a record or of a call', () => {
    const dir = folder();
    const segment = new SegmentFile(dir, { attributes: { job: 'j', rank: 0 } });
    const [forward, backward] = [segment.phase('fwd', 'compute'), segment.phase('bwd', 'compute')];
    for (const microbatch of [0, 1]) {
      segment.step({ step: 4, microbatch, tokens: 100 + microbatch }, us(100 * microbatch));
      segment.begin(forward, us(100 * microbatch + 1));
      segment.end(forward, us(100 * microbatch + 11 + microbatch));
    }
    segment.step({ step: 4, microbatch: 1, tokens: 101 }, us(199));
    segment.call(backward, { microbatch: 0 }, us(200));
    segment.begin(backward, us(200));
    segment.end(backward, us(230));
    segment.close();
    const { rows } = new Collecting(dir).run().close();
    assert.deepEqual(pick(rows, 'phase', 'microbatch', 'dur_ns', 'tokens'), [
      { phase: 'forward', microbatch: 0, dur_ns: 10_000, tokens: 100 },
      { phase: 'backward', microbatch: 0, dur_ns: 30_000, tokens: 100 },
      { phase: 'forward', microbatch: 1, dur_ns: 11_000, tokens: 101 },
      { phase: 'step', microbatch: -1, dur_ns: 229_000, tokens: 201 },
    ]);
  });

  it('names the request where it is the only one, and marks a name that is cut', () => {
    const dir = folder();
    const segment = new SegmentFile(dir, { attributes: { job: 'j', rank: 0 } });
    const prefill = segment.phase('prefill', 'compute');
    const long = 'x'.repeat(100);
    [['req-1'], ['a', 'b'], [long]].forEach((requests, step) => {
      segment.step({ step, requests }, us(10 * step));
      segment.begin(prefill, us(10 * step + 1));
      segment.end(prefill, us(10 * step + 2));
    });
    segment.close();
    const { rows } = new Collecting(dir).run().close();
    assert.deepEqual(pick(ofPhase(rows, 'prefill'), 'request', 'flags'), [
      { request: 'req-1', flags: 0 },
      { request: '', flags: 0 },
      { request: 'x'.repeat(88), flags: FLAG.truncated },
    ]);
  });

  it('spans from its first phase to its last; the engine’s own border is taken where there is nothing else', () => {
    const dir = folder();
    const segment = new SegmentFile(dir, { attributes: { job: 'j', rank: 0 } });
    const [step, mlp] = [segment.phase('step', 'step'), segment.phase('mlp', 'compute')];
    segment.step({ step: 1 }, us(0));
    segment.begin(step, us(1));
    segment.begin(mlp, us(2));
    segment.end(mlp, us(5));
    segment.end(step, us(99));
    segment.step({ step: 2 }, us(100));
    segment.begin(step, us(100));
    segment.end(step, us(150));
    segment.close();
    const { rows } = new Collecting(dir).run().close();
    assert.deepEqual(pick(rows, 'step', 'phase', 'start_ns', 'dur_ns', 'kind'), [
      { step: 1, phase: 'mlp', start_ns: 2000, dur_ns: 3000, kind: KIND.compute },
      { step: 1, phase: 'step', start_ns: 2000, dur_ns: 3000, kind: KIND.step },
      { step: 2, phase: 'step', start_ns: 100_000, dur_ns: 50_000, kind: KIND.step },
    ]);
  });
});

describe('phases of host threads', needsAddon, () => {
  it('count to the step that they lead up to, else to the one that they are in', () => {
    const dir = folder();
    const segment = new SegmentFile(dir, { attributes: { job: 'j', rank: 0 } });
    const [load, save] = [segment.phase('dataload', 'host'), segment.phase('checkpoint', 'host')];
    const [gap, mlp] = [segment.phase('host_gap', 'host'), segment.phase('mlp', 'compute')];
    const step = (number: number, at: number) => {
      segment.step({ step: number }, us(at));
      segment.begin(mlp, us(at + 10));
      segment.end(mlp, us(at + 20));
    };
    segment.mark(load, us(200), us(450));
    step(0, 480);
    segment.mark(gap, us(700), us(750));
    segment.mark(gap, us(760), us(770));
    segment.mark(load, us(800), us(850), { microbatch: 0 });
    segment.mark(save, us(900), us(1100));
    segment.mark(load, us(1100), us(1150));
    step(1, 1160);
    // A loader that is asked right after the step has begun.
    segment.mark(load, us(1165), us(1700));
    step(2, 2160);
    segment.mark(gap, us(2200), us(2300));
    segment.close();
    const { rows } = new Collecting(dir).run().close();
    const host = rows.filter(({ kind }) => kind === KIND.host);
    assert.deepEqual(
      pick(host, 'step', 'phase', 'microbatch', 'start_ns', 'dur_ns', 'count', 'max_ns').map((row) =>
        Object.values(row),
      ),
      [
        [0, 'dataload', -1, 200_000, 250_000, 1, -1],
        [0, 'dataload', 0, 800_000, 50_000, 1, -1],
        [0, 'host_gap', -1, 700_000, 60_000, 2, 50_000],
        [1, 'dataload', -1, 1_100_000, 585_000, 2, 535_000],
        [1, 'checkpoint', -1, 900_000, 200_000, 1, -1],
        [2, 'host_gap', -1, 2_200_000, 100_000, 1, -1],
      ],
    );
  });
});
