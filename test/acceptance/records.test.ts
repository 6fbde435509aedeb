import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { newJobMeta } from '../../protocol/job-meta.js';
import { type PhaseBatch, PhaseBatchBuilder, type PhaseRow } from '../../protocol/phase-batch.js';
import { judge, T0, type TraceSpec, trace } from '../support/trace.js';

/** Records that real pipelines were sent and could not be true, or came otherwise than expected. */

const reasons = (quality: ReturnType<typeof judge>['quality']): Record<string, number> =>
  Object.fromEntries(quality.map(({ subject, evidence }) => [subject.source ?? '', evidence.count as number]));

function batchOf(rows: Partial<PhaseRow>[]): PhaseBatch {
  const builder = new PhaseBatchBuilder(newJobMeta('case'));
  rows.forEach((row, step) => {
    builder.push({
      rank: 0,
      step,
      phase: 'forward',
      start_ns: T0 + BigInt(step) * 60_000_000n,
      dur_ns: 50_000_000,
      ...row,
    });
  });
  return builder.take();
}

it('zero timestamps are dropped and counted, a zero duration is kept', () => {
  const phases: TraceSpec['phases'] = (step, rank) => [
    { phase: 'fwd', ms: 50 },
    ...(rank === 2 && step < 10 ? [{ phase: 'fwd', ms: 0, start_ns: 0n, layer: 1 }] : []),
    ...(rank === 2 && step >= 10 && step < 13 ? [{ phase: 'fwd', ms: 40, start_ns: 0n, layer: 1 }] : []),
    { phase: 'gc', ms: 0 },
  ];
  const { incidents, quality, pipeline } = judge(trace({ ranks: 4, steps: 100, period: 60, phases }));
  assert.deepEqual(incidents, []);
  assert.deepEqual(reasons(quality), { start_zero: 13 });
  assert.equal(pipeline.counts().rows, 4 * 100 * 2);
});

it('negative durations are dropped and counted, the rest is used', () => {
  const durations = [50, 51, -1, 49, -1_770_000_000_000, 50];
  const { incidents, quality, pipeline } = judge([
    batchOf(durations.map((ms) => ({ dur_ns: BigInt(ms) * 1_000_000n }))),
  ]);
  assert.deepEqual(incidents, []);
  assert.deepEqual(reasons(quality), { duration_negative: 2 });
  assert.equal(pipeline.counts().rows, 4);
});

it('durations of centuries are dropped, a checkpoint of 40 minutes is kept', () => {
  const { quality, pipeline } = judge([
    batchOf([
      { dur_ns: 7447334400000000000n },
      { start_ns: 9223372036854775807n },
      { phase: 'checkpoint', kind: 3, dur_ns: 40n * 60n * 1_000_000_000n },
    ]),
  ]);
  assert.deepEqual(reasons(quality), { duration_too_long: 1, start_out_of_range: 1 });
  assert.equal(pipeline.counts().rows, 1);
});

it('negative tokens are dropped and counted; a job of headers only is neither healthy nor sick', () => {
  const { incidents, quality } = judge([batchOf([{ tokens: -3 }, {}])]);
  assert.deepEqual([incidents, reasons(quality)], [[], { negative_value: 1 }]);
  const empty = judge([batchOf([])]);
  assert.deepEqual([empty.incidents, empty.quality, empty.pipeline.counts().steps], [[], [], 0]);
});

describe('durations that jump by exactly 1,000 after a collector was upgraded', () => {
  const upgraded =
    (ranks: readonly number[]): TraceSpec['phases'] =>
    (step, rank) => {
      const unit = step >= 50 && ranks.includes(rank) ? 1000 : 1;
      return [
        { phase: 'fwd', ms: 0.05 * unit },
        { phase: 'bwd', ms: 0.1 * unit },
        { phase: 'allreduce', ms: 0.01 * unit },
      ];
    };

  it('are a change of unit, no straggler', () => {
    const { incidents, quality } = judge(
      trace({ ranks: 4, steps: 80, period: (step) => (step >= 50 ? 200 : 0.2), phases: upgraded([0, 1, 2, 3]) }),
    );
    assert.deepEqual(incidents, []);
    assert.deepEqual(
      quality.map(({ subject, onset_step }) => [subject.source, onset_step]),
      [['unit_jump', 50]],
    );
  });
});

describe('rows delivered again and out of order after a rebalance', () => {
  const phases: TraceSpec['phases'] = (step, rank) => {
    const slow = step >= 20 && rank === 1;
    return [
      { phase: 'fwd', ms: 53.4 },
      { phase: 'bwd', ms: slow ? 292 : 92 },
      { phase: 'allreduce', ms: step >= 20 && !slow ? 201 : 1 },
      { phase: 'opt', ms: 15.7 },
    ];
  };
  const clean = [...trace({ ranks: 4, steps: 70, period: 362.1, phases })];

  it('change neither incidents nor times nor counts', () => {
    const expected = judge(clean);
    const disturbed = [...clean.slice(0, 40), clean[41], clean[40], ...clean.slice(42)] as PhaseBatch[];
    disturbed.splice(35, 0, ...clean.slice(30, 35));
    const { incidents, pipeline } = judge(disturbed);
    assert.deepEqual(incidents, expected.incidents);
    assert.equal(pipeline.counts().steps, expected.pipeline.counts().steps);
    assert.equal(incidents.length, 1);
  });
});

describe('one rank whose collectives were timed on the host, the others on the GPU', () => {
  const phases: TraceSpec['phases'] = (_, rank) => [
    { phase: 'fwd', ms: 30 },
    { phase: 'reduce_scatter', ms: rank === 4 ? 0.005 : 41.057, group: 'dp', bytes: 2 ** 31 },
  ];
  const ranks = Array.from({ length: 8 }, (_, rank) => rank);
  const clocks = (of: (rank: number) => 'gpu' | 'host') => ({
    groups: { dp: ranks },
    ranks: ranks.map((rank) => ({ rank, clock: of(rank) })),
  });
  const judged = (of: (rank: number) => 'gpu' | 'host') =>
    judge(trace({ ranks: 8, steps: 80, period: 80, phases, meta: clocks(of) }));

  it('is not compared and told as such', () => {
    const { incidents, quality } = judged((rank) => (rank === 4 ? 'host' : 'gpu'));
    assert.deepEqual(incidents, []);
    assert.deepEqual(reasons(quality), { other_clock: 80 });
    assert.equal(quality[0]?.evidence.first, 'rank 4');
  });

  it('is like the others where the host timed them all', () => {
    assert.deepEqual(judged(() => 'host').quality, []);
  });
});
