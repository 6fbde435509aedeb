import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { judge, type Phase, type TraceSpec, trace } from '../support/trace.js';

/** Public reports of slow hosts, links and networks. */

describe('decoding slowed by unbound CPU threads, another rank last in every step', () => {
  it('is a slow host, no rank of it', () => {
    const prep = [52, 48, 0.3, 56, 35, 0.3, 44, 50];
    const own = (step: number, rank: number): number => (step < 100 ? 0.21 : (prep[(rank + step) % 8] as number));
    const phases: TraceSpec['phases'] = (step, rank) => [
      { phase: 'host_prep', ms: own(step, rank), kind: 3 },
      { phase: 'decode', ms: 14, decode_tokens: 16 },
      { phase: 'all_gather', ms: step < 100 ? 0.4 : 0.4 + 56 - own(step, rank) },
    ];
    const meta = { host: 'node-a', ranks: Array.from({ length: 8 }, (_, rank) => ({ rank })) };
    const { incidents } = judge(
      trace({ ranks: 8, steps: 200, period: (step) => (step < 100 ? 14.7 : 70.6), phases, meta }),
    );
    assert.deepEqual(
      incidents.map(({ kind, cause, severity, subject }) => [kind, cause, severity, subject.hosts]),
      [['straggler', 'host', 'critical', ['node-a']]],
    );
    const onset = incidents[0]?.onset_step ?? 0;
    assert.ok(onset >= 100 && onset <= 102, `onset at ${onset}`);
  });
});

it('communication time that is launch pacing on the other rank is a straggler, cause host', () => {
  const skews = [
    ...new Array<number>(140).fill(0.16),
    ...new Array<number>(16).fill(1),
    ...new Array<number>(3).fill(12),
  ];
  const phases: TraceSpec['phases'] = (step, rank) => {
    const late = (skew: number): number => (step >= 20 ? skew : 0);
    return [
      { phase: 'decode', ms: 70, decode_tokens: 8 },
      ...(rank === 0 ? [{ phase: 'launch_gap', ms: step >= 20 ? 48 : 1, kind: 3 }] : []),
      ...skews.map((skew, i) => ({
        phase: 'allreduce',
        ms: rank === 1 ? late(skew) + 0.03 : 0.03,
        seq: step * 159 + i,
      })),
    ];
  };
  const { incidents } = judge(trace({ ranks: 2, steps: 80, period: (step) => (step >= 20 ? 150 : 77), phases }));
  assert.deepEqual(
    incidents.map(({ kind, cause, severity, subject }) => [kind, cause, severity, subject.ranks]),
    [['straggler', 'host', 'critical', [0]]],
  );
});

it('bandwidth that falls off a cliff for large messages is slow communication', () => {
  const MiB = 1024 * 1024;
  const measured: [number, number][] = [
    [8, 1.0],
    [16, 1.3],
    [32, 2.18],
    [64, 24.4],
    [128, 49.3],
    [256, 126],
  ];
  const phases: TraceSpec['phases'] = (step) => [
    { phase: 'fwd', ms: 300 },
    { phase: 'allreduce', ms: step % 2 === 0 ? 2.33 : 0.42, bytes: 2 * MiB, seq: 100 * step },
    ...measured.map(([size, ms], i): Phase => ({ phase: 'allreduce', ms, bytes: size * MiB, seq: 100 * step + i + 1 })),
  ];
  const { incidents } = judge(trace({ ranks: 8, steps: 50, period: 520, phases }));
  assert.deepEqual(
    incidents.map(({ kind }) => kind),
    ['comm_slow'],
  );
  assert.deepEqual(incidents[0]?.evidence.message_bytes, [64 * MiB, 128 * MiB, 256 * MiB]);
  assert.deepEqual(incidents[0]?.subject.ranks, []);
});

it('three servers that are slow together, though pairs and four are not, are a slow group', () => {
  const GiB = 1024 ** 3;
  const gather = (group: string, ms: number): Phase => ({ phase: 'allgather', ms, bytes: GiB, group });
  const phases: TraceSpec['phases'] = (_, rank) => [
    { phase: 'fwd', ms: 100 },
    gather(`pair-${rank >> 1}`, 26.8),
    ...(rank < 3 ? [gather('three', 53.7)] : []),
    gather('four', 26.8),
  ];
  const meta = { ranks: Array.from({ length: 4 }, (_, rank) => ({ rank, host: `node-${rank}` })) };
  const { incidents } = judge(trace({ ranks: 4, steps: 60, period: 220, phases, meta }));
  assert.deepEqual(
    incidents.map(({ kind, subject }) => [kind, subject.group, subject.ranks, subject.nic]),
    [['comm_slow', 'three', [], null]],
  );
});

describe('four pairs of GPUs of one host, of which one is slow from the first step on', () => {
  const pairs = (times: number, bytes: number): TraceSpec => ({
    ranks: 8,
    steps: 60,
    period: 60,
    meta: { host: 'node-a', ranks: Array.from({ length: 8 }, (_, rank) => ({ rank })) },
    phases: (_, rank) => [
      { phase: 'fwd', ms: 50 },
      { phase: 'allreduce', ms: rank < 2 ? 0.2 * times : 0.2, bytes, group: `pair-${rank >> 1}` },
    ],
  });

  it('is told of by what the others reach, whatever it costs', () => {
    const { incidents } = judge(trace(pairs(1.2, 1 << 24)));
    assert.deepEqual(
      incidents.map(({ kind, severity, subject }) => [kind, severity, subject.group]),
      [['nvlink_stall', 'info', 'pair-0']],
    );
  });

  it('is nothing where groups may differ as much, or messages tell of latency', () => {
    assert.deepEqual(judge(trace(pairs(1.1, 1 << 24))).incidents, []);
    assert.deepEqual(judge(trace(pairs(1.2, 1 << 12))).incidents, []);
  });
});

describe('transfers that become slow', () => {
  const job = (group: string, hosts: number, transfer: (step: number) => number): TraceSpec => ({
    ranks: 8,
    steps: 120,
    period: (step) => 50 + transfer(step),
    meta: { ranks: Array.from({ length: 8 }, (_, rank) => ({ rank, host: `node-${Math.floor((rank * hosts) / 8)}` })) },
    phases: (step) => [
      { phase: 'fwd', ms: 45 },
      { phase: 'allreduce', ms: transfer(step), bytes: 1 << 24, group },
    ],
  });

  it('inside a host for good are a stalled NVLink', () => {
    const { incidents } = judge(trace(job('tp', 1, (step) => (step < 60 ? 5 : 25))));
    assert.deepEqual(
      incidents.map(({ kind, onset_step, subject }) => [kind, onset_step, subject.group, subject.ranks]),
      [['nvlink_stall', 60, 'tp', []]],
    );
    assert.ok((incidents[0]?.detected_step ?? 99) - 60 <= 12);
  });

  it('are no link where ranks without GPUs share the memory of a host', () => {
    const spec = job('tp', 1, (step) => (step < 60 ? 5 : 25));
    const found = (clock: 'gpu' | 'host') => {
      const ranks = Array.from({ length: 8 }, (_, rank) => ({ rank, clock }));
      return judge(trace({ ...spec, meta: { host: 'node-a', ranks } })).incidents.map(({ kind }) => kind);
    };
    assert.deepEqual(found('host'), ['step_drift']);
    assert.deepEqual(found('gpu'), ['nvlink_stall']);
  });

  const slightly = (bytes: number, hosts = 1): TraceSpec => ({
    ...job('tp', hosts, () => 0.2),
    phases: (step) => [
      { phase: 'fwd', ms: 45 },
      { phase: 'allreduce', ms: step < 60 ? 0.2 : 0.24, bytes, group: 'tp' },
    ],
  });

  it('are told of before they cost anything, and page nobody', () => {
    const { incidents } = judge(trace(slightly(1 << 24)));
    assert.deepEqual(
      incidents.map(({ kind, severity, subject }) => [kind, severity, subject.group]),
      [['nvlink_stall', 'info', 'tp']],
    );
    assert.match(
      incidents[0]?.summary ?? '',
      /fallen from .*: 0\.04 ms of a step are lost, which the job hardly feels/,
    );
  });

  it('and cost nothing are not told of where they are small or the network is shared', () => {
    assert.deepEqual(judge(trace(slightly(1 << 12))).incidents, []);
    assert.deepEqual(judge(trace(slightly(1 << 24, 2))).incidents, []);
  });

  it('between hosts for good are slow communication', () => {
    const { incidents } = judge(trace(job('dp', 2, (step) => (step < 60 ? 5 : 25))));
    assert.deepEqual(
      incidents.map(({ kind }) => kind),
      ['comm_slow'],
    );
  });

  it('between hosts again and again are a flapping NIC', () => {
    const down = (step: number): boolean => step >= 40 && step % 20 < 3;
    const { incidents } = judge(trace(job('dp', 2, (step) => (down(step) ? 50 : 5))));
    assert.deepEqual(
      incidents.map(({ kind, subject }) => [kind, subject.hosts]),
      [['rnic_flap', ['node-0', 'node-1']]],
    );
  });

  it('once are nothing that lasts', () => {
    const { incidents } = judge(trace(job('dp', 2, (step) => (step === 60 ? 50 : 5))));
    assert.deepEqual(incidents, []);
  });
});
