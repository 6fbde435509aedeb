import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { KIND } from '../../protocol/vocabulary.js';
import { judge, type Phase, type TraceSpec, trace } from '../support/trace.js';

/** Public reports of slow ranks, as their authors measured them: input in ms, and the answer that would have helped. */

const CLEAN_STEPS = 20;

/** Clean steps, then the reported ones. */
const after =
  (clean: (rank: number) => Phase[], faulty: (step: number, rank: number) => Phase[]): TraceSpec['phases'] =>
  (step, rank) =>
    step < CLEAN_STEPS ? clean(rank) : faulty(step, rank);

describe('slow backward on one rank, hidden by the all-reduce barrier', () => {
  const split = (fwd: number, bwd: number, wait: number): Phase[] => [
    { phase: 'fwd', ms: fwd },
    { phase: 'bwd', ms: bwd },
    { phase: 'allreduce', ms: wait },
    { phase: 'opt', ms: 15.7 },
  ];
  const backward = [92, 292, 92, 92.1];
  const wait = [201, 1, 201, 200.9];

  it('names the rank that computes, not those that wait', () => {
    const phases = after(
      () => split(53.4, 92, 1),
      (_, rank) => split(53.4, backward[rank] as number, wait[rank] as number),
    );
    const { incidents } = judge(trace({ ranks: 4, steps: 70, period: 362.1, phases }));
    assert.equal(incidents.length, 1);
    const [incident] = incidents;
    assert.equal(incident?.kind, 'straggler');
    assert.deepEqual(incident?.subject.ranks, [1]);
    assert.equal(incident?.subject.phase, 'backward');
    assert.equal(incident?.cause, 'compute');
    assert.equal(incident?.severity, 'critical');
    assert.ok(Math.abs((incident?.cost.ms_per_step ?? 0) - 200) < 10, `${incident?.cost.ms_per_step} ms a step`);
    assert.ok((incident?.detected_step ?? 0) - CLEAN_STEPS <= 3, `found at step ${incident?.detected_step}`);
  });

  it('names the same rank where it was slow from the first step on', () => {
    const phases: TraceSpec['phases'] = (_, rank) => split(53.4, backward[rank] as number, wait[rank] as number);
    const { incidents } = judge(trace({ ranks: 4, steps: 50, period: 362.1, phases }));
    assert.deepEqual(
      incidents.map(({ kind, subject }) => [kind, subject.ranks]),
      [['straggler', [1]]],
    );
  });

  it('names nobody where waiting is booked as backward, since it cannot be known', () => {
    const fused = [293, 292.2, 293, 293.1];
    const phases = after(
      () => [
        { phase: 'fwd', ms: 53.4 },
        { phase: 'bwd', ms: 93 },
        { phase: 'opt', ms: 15.7 },
      ],
      (_, rank) => [
        { phase: 'fwd', ms: 53.4 },
        { phase: 'bwd', ms: fused[rank] as number },
        { phase: 'opt', ms: 15.7 },
      ],
    );
    const { incidents } = judge(trace({ ranks: 4, steps: 70, period: 362.1, phases }));
    assert.deepEqual(
      incidents.flatMap(({ subject }) => subject.ranks),
      [],
    );
  });
});

it('a slow data loader on one rank is one straggler, cause data', () => {
  const phases = after(
    () => [
      { phase: 'dataload', ms: 10.4 },
      { phase: 'fwd', ms: 53 },
      { phase: 'bwd', ms: 92 },
      { phase: 'allreduce', ms: 1 },
      { phase: 'opt', ms: 16 },
    ],
    (_, rank) => [
      { phase: 'dataload', ms: rank === 2 ? 199.7 : 10.4 },
      { phase: 'fwd', ms: 53 },
      { phase: 'bwd', ms: 92 },
      { phase: 'allreduce', ms: rank === 2 ? 1 : 190.3 },
      { phase: 'opt', ms: 16 },
    ],
  );
  const { incidents } = judge(trace({ ranks: 4, steps: 70, period: 361.7, phases }));
  assert.equal(incidents.length, 1);
  const [incident] = incidents;
  assert.deepEqual([incident?.kind, incident?.cause, incident?.severity], ['straggler', 'data', 'critical']);
  assert.deepEqual(incident?.subject.ranks, [2]);
  assert.equal(incident?.subject.phase, 'dataload');
});

it('garbage collection pauses on changing ranks are no straggler', () => {
  const gaps: Record<number, number[]> = { 20: [0, 0, 0, 668, 0, 0, 0, 0], 23: [557, 674, 665, 654, 556, 0, 0, 0] };
  const phases: TraceSpec['phases'] = (step, rank) => {
    const longest = Math.max(0, ...(gaps[step] ?? []));
    const own = gaps[step]?.[rank] ?? 0;
    return [
      ...(own > 0 ? [{ phase: 'host_gap', ms: own }] : []),
      { phase: 'fwd', ms: 240 },
      { phase: 'bwd', ms: 400 },
      { phase: 'allreduce', ms: 25 + longest - own },
      { phase: 'opt', ms: 17 },
    ];
  };
  const { incidents } = judge(
    trace({ ranks: 8, steps: 60, period: (step) => 682 + Math.max(0, ...(gaps[step] ?? [])), phases }),
  );
  assert.deepEqual(
    incidents.filter(({ kind }) => kind !== 'transient_stall'),
    [],
  );
  assert.deepEqual(
    incidents.flatMap(({ subject }) => subject.ranks),
    [],
  );
});

it('slow first steps after a start are no incident', () => {
  const step = (number: number): number => ({ 0: 1_346_500, 1: 20_500 })[number] ?? 15_700;
  const phases: TraceSpec['phases'] = (number) => [
    { phase: 'step', ms: step(number) },
    { phase: 'fwd', ms: 0.9 * step(number) },
  ];
  const { incidents } = judge(trace({ ranks: 4, steps: 33, period: step, phases }));
  assert.deepEqual(incidents, []);
});

it('a power-capped GPU is a straggler from the first step on: its compute is slow, what memory bandwidth binds is not', () => {
  const phases: TraceSpec['phases'] = (_, rank) => [
    { phase: 'fwd', ms: rank === 2 ? 128 : 80 },
    { phase: 'bwd', ms: rank === 2 ? 256 : 160 },
    { phase: 'allreduce', ms: rank === 2 ? 2 : 146 },
    { phase: 'opt', ms: rank === 2 ? 20.6 : 20 },
  ];
  const { incidents } = judge(trace({ ranks: 4, steps: 100, period: 408, phases }));
  assert.equal(incidents.length, 1);
  const [incident] = incidents;
  assert.deepEqual([incident?.kind, incident?.cause, incident?.severity], ['straggler', 'compute', 'critical']);
  assert.deepEqual(incident?.subject.ranks, [2]);
  assert.equal(incident?.subject.phase, 'backward');
});

describe('requests a little unevenly spread', () => {
  const decode = (running: number): Phase[] => [
    { phase: 'decode', ms: 20, decode_tokens: running, batch: running, running, waiting: 0 },
  ];

  it('6 and 4 running on two engines with equal step times are no incident', () => {
    const phases: TraceSpec['phases'] = (step, rank) => decode(step % 2 === 0 ? 5 : rank === 0 ? 6 : 4);
    assert.deepEqual(judge(trace({ ranks: 2, steps: 300, period: 20, phases })).incidents, []);
  });

  it('a first burst that all goes to one rank is no incident', () => {
    const phases: TraceSpec['phases'] = (step, rank) => decode(step < 10 ? (rank === 0 ? 40 : 0) : 5);
    assert.deepEqual(judge(trace({ ranks: 8, steps: 100, period: 20, phases })).incidents, []);
  });
});

it('a clock that steps back in mid-run changes nothing', () => {
  const phases: TraceSpec['phases'] = () => [
    { phase: 'fwd', ms: 160 },
    { phase: 'bwd', ms: 300 },
    { phase: 'allreduce', ms: 25 },
    { phase: 'opt', ms: 15 },
  ];
  const clockNs = (step: number, rank: number): number => (rank === 5 && step >= 100 ? -1_200e6 : 0);
  const { incidents, pipeline } = judge(trace({ ranks: 8, steps: 140, period: 500, phases, clockNs }));
  assert.deepEqual(incidents, []);
  assert.deepEqual([pipeline.counts().steps, pipeline.counts().partialSteps], [140, 0]);
});

it('a slow loader is told where reductions overlap the backward pass, which waits for them at its end', () => {
  const slowFrom = 80;
  const phases: TraceSpec['phases'] = (step, rank) => {
    const late = step >= slowFrom ? 12 : 0;
    const wait = rank === 0 ? late : 0;
    const all = { group: 'world', count: 6, bytes: 1e9, seq: -1, transfer_ns: 50_000_000 };
    return [
      { phase: 'dataload', ms: rank === 1 ? 0.1 + late : 0.1 },
      { phase: 'forward', ms: 18 },
      { phase: 'backward', ms: 36 },
      { phase: 'all_reduce_wait', kind: KIND.comm, ms: 3 + wait, group: 'world', seq: 0 },
      { phase: 'optimizer', ms: 3 },
      // Six buckets wait at the same time.
      { phase: 'all_reduce', ms: 50 + 5 * wait, ...all },
    ];
  };
  const period = (step: number): number => (step >= slowFrom ? 73 : 61);
  const { incidents } = judge(trace({ ranks: 2, steps: 160, period, phases, meta: { groups: { world: [0, 1] } } }));
  assert.deepEqual(
    incidents.map(({ kind, cause, subject, onset_step }) => [kind, cause, subject.ranks, onset_step]),
    [['straggler', 'data', [1], slowFrom]],
  );
});
