import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { judge, type Phase, type TraceSpec, trace } from '../support/trace.js';

/** Public reports in which no rank is at fault: the whole job pauses, drifts, or has its work unevenly spread. */

const named = (incidents: { subject: { ranks: number[] } }[]) => incidents.flatMap(({ subject }) => subject.ranks);

describe('a data loader that is slow in every second step', () => {
  it('is one stall of the job with its period, though the mean lies between', () => {
    const first = [1466.6, 67.3, 48.2, 4.5, 44.2, 4.8, 43.9, 3.8, 45.7, 3.7];
    const seconds = (step: number): number => first[step] ?? (step % 2 === 0 ? 45 : 4);
    const phases: TraceSpec['phases'] = (step) => [
      { phase: 'dataload', ms: 1000 * (seconds(step) - 3.5) },
      { phase: 'fwd', ms: 3500 },
    ];
    const { incidents } = judge(trace({ ranks: 16, steps: 50, period: (step) => 1000 * seconds(step), phases }));
    const stalls = incidents.filter(({ kind }) => kind === 'transient_stall');
    assert.equal(stalls.length, 1);
    assert.deepEqual(
      [stalls[0]?.evidence.period_steps, stalls[0]?.subject.ranks, stalls[0]?.severity],
      [2, [], 'info'],
    );
    assert.deepEqual(named(incidents), []);
  });
});

it('one huge stall of the loader is one transient stall, closed', () => {
  const stall = (step: number): number => (step === 31 ? 210_160 : 50);
  const phases: TraceSpec['phases'] = (step) => [
    { phase: 'dataload', ms: stall(step) },
    { phase: 'fwd', ms: 1950 },
  ];
  const { incidents } = judge(trace({ ranks: 4, steps: 50, period: (step) => 1950 + stall(step), phases }));
  assert.deepEqual(
    incidents.map(({ kind, status, onset_step }) => [kind, status, onset_step]),
    [['transient_stall', 'resolved', 31]],
  );
});

it('steps of the whole job that became three times as long are a drift, no rank is named', () => {
  const ms = (step: number): number => (step < 40 ? 1100 : 3300);
  const phases: TraceSpec['phases'] = (step) => [{ phase: 'fwd', ms: ms(step) }];
  const { incidents } = judge(trace({ ranks: 4, steps: 80, period: ms, phases, jitter: 0.05 }));
  assert.deepEqual(
    incidents.map(({ kind }) => kind),
    ['step_drift'],
  );
  assert.deepEqual(named(incidents), []);
});

it('a jump is no climb, though steps creep up a little before and after: it is looked at until it has stayed', () => {
  const ms = (step: number): number => (step < 70 ? 1000 : 1300) + step / 10;
  const phases: TraceSpec['phases'] = (step) => [{ phase: 'fwd', ms: ms(step) }];
  const { incidents } = judge(trace({ ranks: 4, steps: 100, period: ms, phases, jitter: 0 }));
  assert.deepEqual(
    incidents.map(({ kind, evidence }) => [kind, evidence.climbs]),
    [['step_drift', false]],
  );
  assert.deepEqual([incidents[0]?.onset_step, incidents[0]?.detected_step], [70, 82]);
});

it('a step time that creeps up is a drift before it has tripled', () => {
  const ms = (step: number): number => 7500 + 713 * (step + 1);
  const phases: TraceSpec['phases'] = (step) => [{ phase: 'fwd', ms: ms(step) }];
  const { incidents } = judge(trace({ ranks: 2, steps: 40, period: ms, phases }));
  assert.deepEqual(
    incidents.map(({ kind }) => kind),
    ['step_drift'],
  );
  assert.ok((incidents[0]?.detected_step ?? 99) < 15, `found at step ${incidents[0]?.detected_step}`);
  assert.equal(incidents[0]?.status, 'open');
  assert.deepEqual(named(incidents), []);
});

it('checkpoints and evaluations are no pause', () => {
  const phases: TraceSpec['phases'] = (step) => [
    { phase: 'fwd', ms: 5000 },
    { phase: 'bwd', ms: 10_000 },
    { phase: 'allreduce', ms: 700 },
    ...(step % 19 === 18 ? [{ phase: 'ckpt', ms: 91_600 }] : []),
    ...(step === 45 ? [{ phase: 'eval', ms: 600_000 }] : []),
  ];
  const period = (step: number): number => 15_700 + (step % 19 === 18 ? 91_600 : 0) + (step === 45 ? 600_000 : 0);
  assert.deepEqual(judge(trace({ ranks: 8, steps: 60, period, phases })).incidents, []);
});

it('experts unevenly used inside each host are an imbalance of load, the hosts are not at fault', () => {
  const heavy = (rank: number): boolean => rank % 8 < 2;
  const tokens = (rank: number): number => (heavy(rank) ? 2900 : 399);
  const phases: TraceSpec['phases'] = (step, rank) => [
    { phase: 'attention', ms: 0.4 },
    { phase: 'moe', ms: (step < 20 ? 1024 : tokens(rank)) / 1000, tokens: step < 20 ? 1024 : tokens(rank) },
    { phase: 'all_to_all', ms: step < 20 ? 0.05 : 2.95 - tokens(rank) / 1000 },
  ];
  const meta = { ranks: Array.from({ length: 32 }, (_, rank) => ({ rank, host: `node-${rank >> 3}` })) };
  const { incidents } = judge(trace({ ranks: 32, steps: 80, period: 3.4, phases, meta }));
  assert.deepEqual(
    incidents.map(({ kind }) => kind),
    ['load_imbalance'],
  );
  assert.deepEqual(named(incidents), [0, 1, 8, 9, 16, 17, 24, 25]);
  assert.equal(incidents[0]?.severity, 'critical');
});

describe('requests that wait on two of eight data-parallel ranks', () => {
  const queue = (running: number, waiting: number, kv_usage: number): Phase[] => [
    { phase: 'decode', ms: 30, decode_tokens: running, running, waiting, kv_usage },
  ];

  it('are an imbalance of the scheduler', () => {
    const phases: TraceSpec['phases'] = (_, rank) =>
      rank === 0 ? queue(51, 117, 1) : rank === 1 ? queue(31, 108, 0.986) : queue(rank === 7 ? 35 : 34, 0, 0.55);
    const { incidents } = judge(trace({ ranks: 8, steps: 30, period: 10_000, phases }));
    assert.deepEqual(
      incidents.map(({ kind, severity, subject }) => [kind, severity, subject.ranks]),
      [['sched_imbalance', 'critical', [0, 1]]],
    );
  });
});

it('a pause between steps on another rank each time is one stall of the job, though no phase has grown', () => {
  const [ranks, pause, clean] = [8, 1450, 20];
  const pauseBefore = (step: number, rank: number): number => (step > clean && (step - 1) % ranks === rank ? pause : 0);
  const phases: TraceSpec['phases'] = (step, rank) => [
    { phase: 'fwd', ms: 11_715 },
    { phase: 'allreduce', ms: 3000 + (step > clean ? pause : 0) - pauseBefore(step, rank), group: 'dp' },
    { phase: 'opt', ms: 2000 },
  ];
  const period = (step: number): number => 16_715 + (step > clean ? pause : 0);
  const clockNs = (step: number, rank: number): number => 1e6 * pauseBefore(step, rank);
  const { incidents } = judge(trace({ ranks, steps: 60, period, phases, clockNs, jitter: 0.001 }));
  assert.deepEqual(
    incidents.map(({ kind, cause, severity, subject }) => [kind, cause, severity, subject.ranks]),
    [['transient_stall', 'host', 'info', []]],
  );
  assert.equal(incidents[0]?.evidence.ranks_that_paused, ranks);
});
