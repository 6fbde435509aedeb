import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RunBook } from '../../collector/run-book.js';
import { decodePhases } from '../../protocol/arrow.js';
import { judge } from '../support/trace.js';
import { M0, SegmentFile, T0 } from './segment-file.js';
import { Collecting, folder, needsAddon, ofPhase } from './support.js';

const PERIOD = 400_000_000n;

interface Attempt {
  rank: number;
  run?: string;
  /** Numbers of its steps. */
  from: number;
  to: number;
  /** When the process began, in steps since M0. */
  startStep: number;
}

/** One process of a rank: forward and optimizer, and an all-reduce in which nobody waits. */
function attempt(dir: string, { rank, run, from, to, startStep }: Attempt): SegmentFile {
  const created = BigInt(startStep) * PERIOD;
  const segment = new SegmentFile(dir, {
    attributes: { job: 'train', rank, groups: { dp: [0, 1, 2, 3] }, ...(run && { run }) },
    pid: 1000 + 10 * startStep + rank,
    fences: 8192,
    hosts: 1024,
    createdMonotonicNs: M0 + created,
    createdRealtimeNs: T0 + created,
  });
  const phases = [
    [segment.phase('forward', 'compute'), 100_000_000n],
    [segment.phase('all_reduce', 'comm', { group: 'dp' }), 20_000_000n],
    [segment.phase('optimizer', 'compute'), 10_000_000n],
  ] as const;
  for (let step = from; step <= to; step++) {
    // The first step of an attempt takes long, as in reality.
    let at = M0 + created + BigInt(step - from) * PERIOD + (step > from ? 90_000_000_000n : 0n);
    segment.step({ step, tokens: 1000 }, at);
    for (const [phase, duration] of phases) {
      segment.begin(phase, at);
      at += duration;
      segment.end(phase, at);
    }
  }
  return segment;
}

const stepsByRun = (collecting: Collecting): Record<string, [number, number, number]> => {
  const runs: Record<string, number[]> = {};
  for (const { meta, rows } of collecting.batches)
    for (const { rank, step } of ofPhase(rows, 'forward')) if (rank === 0) (runs[meta.run] ??= []).push(Number(step));
  return Object.fromEntries(
    Object.entries(runs).map(([run, steps]) => [run, [Math.min(...steps), Math.max(...steps), steps.length]]),
  );
};

describe('a job that is started again from a checkpoint', needsAddon, () => {
  it('keeps repeated steps apart, late records of the old processes too, and nothing is wrong with it', () => {
    const dir = folder();
    const collecting = new Collecting(dir);
    const old = [0, 1, 2, 3].map((rank) =>
      attempt(dir, { rank, run: '0', from: 1, to: rank === 3 ? 498 : 500, startStep: 0 }),
    );
    collecting.run();
    const again = [0, 1, 2, 3].map((rank) => attempt(dir, { rank, run: '1', from: 375, to: 700, startStep: 600 }));
    // Two steps of rank 3's old process that come only now.
    const late = attempt(dir, { rank: 3, run: '0', from: 499, to: 500, startStep: 499 });
    for (const segment of [...old, ...again, late]) segment.close();
    collecting.run().close();
    assert.deepEqual(stepsByRun(collecting), { 0: [1, 500, 500], 1: [375, 700, 326] });
    const { incidents, quality, pipeline } = judge(collecting.messages.map(({ value }) => decodePhases(value)));
    assert.deepEqual([incidents, quality], [[], []]);
    assert.equal(pipeline.counts().steps, 500 + 326);
  });

  it('counts attempts itself where the engine does not, also across a restart of the collector', () => {
    const dir = folder();
    const runs = new RunBook();
    const first = new Collecting(dir, {}, runs);
    for (const rank of [0, 1]) attempt(dir, { rank, from: 1, to: 5, startStep: 0 }).close();
    first.run().close();
    for (const rank of [0, 1]) attempt(dir, { rank, from: 3, to: 8, startStep: 100 }).close();
    const second = new Collecting(dir, {}, new RunBook(JSON.parse(JSON.stringify(runs.state))));
    second.run().close();
    assert.deepEqual(stepsByRun(first), { 1: [1, 5, 5] });
    assert.deepEqual(stepsByRun(second), { 2: [3, 8, 6] });
  });

  it('is another run also where the process goes on and only its step numbers fall', () => {
    const dir = folder();
    const segment = new SegmentFile(dir, { attributes: { job: 'train', run: 'a', rank: 0 }, hosts: 1024 });
    const forward = segment.phase('forward', 'compute');
    let at = M0;
    for (const step of [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 6, 7, 8]) {
      segment.step({ step }, at);
      segment.begin(forward, at + 1n);
      segment.end(forward, at + 1000n);
      at += 10_000n;
    }
    segment.close();
    assert.deepEqual(stepsByRun(new Collecting(dir).run().close()), { a: [1, 10, 10], 'a+1': [6, 8, 3] });
  });
});
