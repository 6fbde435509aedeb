import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { newJobMeta } from '../../protocol/job-meta.js';
import { type PhaseBatch, PhaseBatchBuilder } from '../../protocol/phase-batch.js';
import { KIND } from '../../protocol/vocabulary.js';
import { judge, sampleAt, T0, type TraceSpec, trace } from '../support/trace.js';

/** Public reports of jobs that stand still: a collective that does not end, and pauses that are none. */

const RANKS = 32;
const PERIOD_S = 14;
const STEPS = 20;
const meta = { groups: { world: Array.from({ length: RANKS }, (_, rank) => rank) } };

const phases: TraceSpec['phases'] = () => [
  { phase: 'fwd', ms: 12_000 },
  { phase: 'all_to_all', ms: 1500, group: 'world' },
];
const healthy = () => trace({ ranks: RANKS, steps: STEPS, period: 1000 * PERIOD_S, phases, meta });

/** What the collectors of the given ranks say at a time: the collective of step 20 has begun and not ended. */
function open(
  ranks: number[],
  seconds: number,
  facts: { phase?: string; kind?: number; open?: boolean } = {},
): PhaseBatch {
  const { phase = 'all_to_all', kind = KIND.comm } = facts;
  const builder = new PhaseBatchBuilder(newJobMeta('case', meta));
  const start_ns = T0 + BigInt((STEPS * PERIOD_S + 12) * 1e9);
  const comm = phase === 'all_to_all' ? { op: phase, group: 'world', seq: STEPS } : {};
  for (const rank of ranks)
    builder.push({
      rank,
      step: STEPS,
      phase,
      kind,
      open: facts.open ?? true,
      start_ns,
      dur_ns: BigInt(seconds * 1e9),
      ...comm,
    });
  return builder.take();
}

const all = Array.from({ length: RANKS }, (_, rank) => rank);
const without = (missing: number): number[] => all.filter((rank) => rank !== missing);

describe('a collective that does not end', () => {
  it('is a hang within three steps, and names the rank that has not arrived', () => {
    const said = [10, 20, 30, 40, 50].map((seconds) => open(without(21), seconds));
    const { incidents } = judge([...healthy(), ...said]);
    assert.deepEqual(
      incidents.map(({ kind, severity, subject }) => [kind, severity, subject.ranks]),
      [['comm_hang', 'critical', [21]]],
    );
    const openFor = incidents[0]?.timeline[0]?.note.match(/for ([\d.]+) s/)?.[1];
    assert.ok(Number(openFor) <= 3 * PERIOD_S + 10, `said after ${openFor} s`);
  });

  it('is one incident where others wait behind it, and over with a row that sums them', () => {
    const builder = new PhaseBatchBuilder(newJobMeta('case', meta));
    const row = { step: STEPS, phase: 'all_to_all', kind: KIND.comm, op: 'all_to_all', group: 'world', start_ns: T0 };
    const openRow = { ...row, open: true, dur_ns: 100_000_000_000n };
    for (const rank of without(3)) for (const seq of [41, 40]) builder.push({ ...openRow, rank, seq });
    // What waits on the main stream has no number before it ends.
    const wait = { ...openRow, phase: 'all_reduce_wait', op: '' };
    for (const rank of without(3)) builder.push({ ...wait, rank });
    const hanging = builder.take();
    for (const rank of without(3)) builder.push({ ...wait, rank, open: false, seq: 0 });
    for (const rank of without(3)) builder.push({ ...row, rank, count: 2, dur_ns: 101_000_000_000n });
    const { incidents } = judge([...healthy(), hanging, builder.take()]);
    assert.deepEqual(
      incidents.map(({ kind, subject, status }) => [kind, subject.ranks, status]),
      [['comm_hang', [3], 'resolved']],
    );
  });

  it('names nobody where all have arrived: one incident, not one a rank', () => {
    const said = [20, 45, 100, 905].map((seconds) => open(all, seconds));
    const { incidents } = judge([...healthy(), ...said]);
    assert.deepEqual(
      incidents.map(({ kind, cause, subject }) => [kind, cause, subject.ranks, subject.group]),
      [['comm_hang', 'network', [], 'world']],
    );
  });

  it('is over once it ends', () => {
    const { incidents } = judge([...healthy(), open(without(3), 60), open(all, 70, { open: false })]);
    assert.deepEqual(
      incidents.filter(({ kind }) => kind === 'comm_hang').map(({ status }) => status),
      ['resolved'],
    );
  });

  it('is no hang while the missing rank writes a checkpoint', () => {
    const checkpoint = open([3], 90, { phase: 'checkpoint', kind: KIND.host });
    const { incidents } = judge([...healthy(), checkpoint, open(without(3), 80)]);
    assert.deepEqual(incidents, []);
  });

  it('is no hang in a first step that compiles for minutes', () => {
    assert.deepEqual(judge([open(without(3), 300)]).incidents, []);
  });
});

it('a hang of which ranks tell only after fifteen minutes was known long before, and then says who told first', () => {
  const domain = [16, 17, 18, 19, 20, 22, 23];
  const errors = [
    { rank: 21, at: 905 },
    ...domain.map((rank, i) => ({ rank, at: 905.1 + 0.05 * i })),
    ...all.filter((rank) => rank < 16 || rank > 23).map((rank, i) => ({ rank, at: 906 + 0.25 * i })),
  ];
  const hung = STEPS * PERIOD_S + 12;
  const samples = errors.map(({ rank, at }) =>
    sampleAt(hung + at, { name: 'nccl_error', value: 1, rank, host: `node-${rank >> 3}` }),
  );
  const beforeErrors = judge([...healthy(), open(all, 20), open(all, 3 * PERIOD_S + 1)]);
  assert.deepEqual(
    beforeErrors.incidents.map(({ kind, severity }) => [kind, severity]),
    [['comm_hang', 'critical']],
  );
  const said = [20, 45, 100, 900, 915].map((seconds) => open(all, seconds));
  const { incidents } = judge([...healthy(), ...said], samples);
  assert.equal(incidents.length, 1);
  const { first_error_rank, first_error_ranks } = incidents[0]?.evidence ?? {};
  assert.deepEqual([first_error_rank, first_error_ranks], [21, [16, 17, 18, 19, 20, 21, 22, 23]]);
});

it('a collective that one of 256 ranks never enqueued hangs for want of that one, not of the first to time out', () => {
  const ranks = Array.from({ length: 256 }, (_, rank) => rank);
  const SEQ = 2_398_458;
  const world = { groups: { world: ranks } };
  const step =
    (seq: number): TraceSpec['phases'] =>
    () => [
      { phase: 'fwd', ms: 200 },
      { phase: 'allreduce', ms: 20, bytes: 4 * 8_652_160, group: 'world', seq },
    ];
  const done = Array.from({ length: 12 }, (_, i) => SEQ - 11 + i).flatMap((seq) => [
    ...trace({ ranks: 256, steps: 1, firstStep: seq, period: 230, phases: step(seq), meta: world }),
  ]);
  const builder = new PhaseBatchBuilder(newJobMeta('case', world));
  const say = (seconds: number): PhaseBatch => {
    for (const rank of ranks.filter((each) => each !== 77))
      builder.push({
        ...{ rank, step: SEQ + 1, phase: 'all_reduce', op: 'all_reduce', kind: KIND.comm, open: true, group: 'world' },
        ...{ seq: SEQ + 1, start_ns: T0 + 10_000_000_000n, dur_ns: BigInt(seconds * 1e9) },
      });
    return builder.take();
  };
  const { incidents } = judge([...done, ...[0.5, 2, 10].map(say)]);
  assert.deepEqual(
    incidents.map(({ kind, severity, subject }) => [kind, severity, subject.ranks]),
    [['comm_hang', 'critical', [77]]],
  );
});

it('a hang while a port is down tells of the port', () => {
  const down = STEPS * PERIOD_S + 5;
  const samples = [sampleAt(down, { name: 'port_down', value: 1, host: 'node-b', nic: 'nic3' })];
  const { incidents } = judge([...healthy(), ...[20, 45, 60].map((seconds) => open(all, seconds))], samples);
  assert.deepEqual(
    incidents.map(({ kind, evidence }) => [kind, evidence.ports_down]),
    [['comm_hang', 'node-b/nic3']],
  );
});
