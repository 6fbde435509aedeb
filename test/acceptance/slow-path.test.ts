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

  const mixed = (small: number): TraceSpec => ({
    ...job(host, 4, 120, 8, []),
    phases: (step) =>
      job(host, 4, 120, 8, step % 3 ? reduces(20, 120.3, 384 * KB) : reduces(100, small, 10 * KB)).phases(step, 0),
  });

  it('is told of where it costs little and only now and then, and pages nobody', () => {
    const { incidents } = judge(trace(mixed(6.7)), [], baseline);
    assert.deepEqual(
      incidents.map(({ kind, severity, subject }) => [kind, severity, subject.group]),
      [['tp_slow_path', 'info', 'tp0']],
    );
    assert.deepEqual(incidents[0]?.evidence.times_expected, [1.24, 1]);
  });

  it('is nothing where it is no further off than runs differ', () => {
    assert.deepEqual(judge(trace(mixed(5.9)), [], baseline).incidents, []);
  });

  it('is nothing to say of the link while a GPU is busy with something else', () => {
    const spec = job(host, 4, 120, 8, reduces(100, 6.7, 10 * KB));
    const busy: TraceSpec = {
      ...spec,
      phases: (step, rank) =>
        spec
          .phases(step, rank)
          .map((phase) => (rank === 1 && phase.phase === 'decode' ? { ...phase, ms: 9.6 } : phase)),
    };
    const kinds = judge(trace(busy), [], baseline).incidents.map(({ kind }) => kind);
    assert.ok(!kinds.includes('tp_slow_path') && !kinds.includes('nvlink_stall'), kinds.join());
  });

  it('is nothing for messages that are no slower on that path', () => {
    const { incidents } = judge(trace(job(host, 4, 500, 8, reduces(20, 83.5, 384 * KB))), [], baseline);
    assert.deepEqual(incidents, []);
  });
});

describe('a restart', () => {
  const attempts = (us: number[], meta: (run: number) => TraceSpec['meta'] = () => ({})) =>
    us.flatMap((each, i) => [
      ...trace({
        ...job({}, 4, 60, 8, reduces(100, each, 10 * KB)),
        meta: { host: 'node-a', run: `${i + 1}`, ...meta(i) },
      }),
    ]);

  it('onto a slow path is seen by what the attempt before took, and so is the next one', () => {
    const { incidents } = judge(attempts([5.4, 20.5, 20.5]));
    assert.deepEqual(
      incidents.map(({ kind, subject }) => [kind, subject.run, subject.group]),
      [
        ['tp_slow_path', '2', 'tp0'],
        ['tp_slow_path', '3', 'tp0'],
      ],
    );
    assert.match(incidents[0]?.summary ?? '', /take 20\.\d us where the attempt before takes 5\.4/);
  });

  it('of another configuration, or a quicker one, is nothing', () => {
    assert.deepEqual(judge(attempts([5.4, 20.5], (run) => ({ config_hash: `${run}` }))).incidents, []);
    assert.deepEqual(judge(attempts([20.5, 5.4])).incidents, []);
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
