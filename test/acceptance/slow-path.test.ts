import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { Baseline } from '../../detector/baseline/baseline.js';
import { runsOf, train } from '../detector/baseline/support.js';
import { judge, type Phase, type TraceSpec, trace } from '../support/trace.js';

/** Public reports of tensor parallel groups on a slow path from the first step on, beside a job that is not. */

const KB = 1024;

/** Compute, then all-reduces of the group, `us` microseconds each. */
const job = (ranks: TraceSpec['meta'], n: number, steps: number, computeMs: number, reduces: Phase[]): TraceSpec => ({
  ranks: n,
  steps,
  period: computeMs + reduces.reduce((sum, { ms }) => sum + ms, 0) + 0.1,
  meta: ranks as NonNullable<TraceSpec['meta']>,
  phases: (step) => [
    { phase: 'decode', ms: computeMs, decode_tokens: 8, graph: 8 },
    ...reduces.map((reduce, i) => ({ ...reduce, seq: step * reduces.length + i, graph: 8 })),
  ],
});
const reduces = (count: number, us: number, bytes: number): Phase[] =>
  Array.from({ length: count }, () => ({ phase: 'allreduce', ms: us / 1000, bytes, group: 'tp0' }));

const learnt = async (specs: readonly TraceSpec[]): Promise<Baseline> =>
  new Baseline(
    await train(runsOf(specs.flatMap((spec, i) => [...trace({ ...spec, meta: { ...spec.meta, run: `${i}` } })]))),
  );

describe('an all-reduce on the slow path for small messages only', () => {
  const host = { host: 'node-a', ranks: Array.from({ length: 4 }, (_, rank) => ({ rank })) };
  let baseline: Baseline;
  before(async () => {
    baseline = await learnt([
      job(host, 4, 200, 8, reduces(100, 5.4, 10 * KB)),
      job(host, 4, 200, 8, reduces(20, 120.3, 384 * KB)),
    ]);
  });

  it('is a slow path of the group, none of its ranks is named', () => {
    const { incidents } = judge(trace(job(host, 4, 500, 8, reduces(100, 20.5, 10 * KB))), [], baseline);
    assert.deepEqual(
      incidents.map(({ kind, severity, subject }) => [kind, severity, subject.group, subject.ranks]),
      [['tp_slow_path', 'warning', 'tp0', []]],
    );
  });

  it('is nothing for messages that are no slower on that path', () => {
    const { incidents } = judge(trace(job(host, 4, 500, 8, reduces(20, 83.5, 384 * KB))), [], baseline);
    assert.deepEqual(incidents, []);
  });
});

it('two hosts that share a model take twice as long as a reference with the same work: a slow path, no straggler', async () => {
  const hosts = { ranks: [0, 1].map((rank) => ({ rank, host: `node-${rank}` })) };
  const baseline = await learnt([job(hosts, 2, 200, 50, reduces(128, 410, 64 * KB))]);
  const { incidents } = judge(trace(job(hosts, 2, 60, 50, reduces(128, 1300, 64 * KB))), [], baseline);
  assert.deepEqual(
    incidents.map(({ kind, severity, subject }) => [kind, severity, subject.group]),
    [['tp_slow_path', 'critical', 'tp0']],
  );
});
