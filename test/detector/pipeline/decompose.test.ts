import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Assembler, baseOf } from '../../../detector/pipeline/assembler.js';
import { lateness } from '../../../detector/pipeline/collectives.js';
import { decompose } from '../../../detector/pipeline/decompose.js';
import type { StepView } from '../../../detector/pipeline/step-view.js';
import { newTopology } from '../../../detector/pipeline/topology.js';
import { newJobMeta } from '../../../protocol/job-meta.js';
import { PhaseBatchBuilder, type PhaseRow } from '../../../protocol/phase-batch.js';
import { KIND, kindOfPhase } from '../../../protocol/vocabulary.js';
import { T0 } from '../../support/trace.js';

type Row = Omit<PhaseRow, 'start_ns'> & { at?: number };

/** Views of the steps that the rows make; `at` is their start in ns after T0. */
function views(rows: Row[], meta = newJobMeta('job')): StepView[] {
  const topology = newTopology(meta);
  const assembler = new Assembler(topology);
  const builder = new PhaseBatchBuilder(meta);
  for (const { at, ...row } of rows)
    builder.push({ kind: KIND[kindOfPhase(row.phase)], start_ns: T0 + BigInt(at ?? 0), ...row });
  const batch = builder.take();
  assembler.add(batch, null, false, 0n);
  const ends = { base: baseOf(batch, null), ends: new Map() };
  return [...assembler.closeAll()].map(({ rows: closed, live }) => decompose(closed, topology, ends, live));
}

const view = (rows: Row[], meta = newJobMeta('job')): StepView => views(rows, meta)[0] as StepView;

describe('splitting collectives into transfer and wait', () => {
  const reduce = (rank: number, seq: number, dur_ns: number, facts: Partial<Row> = {}): Row => ({
    rank,
    step: 0,
    phase: 'all_reduce',
    op: 'all_reduce',
    group: 'dp',
    seq,
    dur_ns,
    ...facts,
  });

  it('takes the shortest duration of each collective as its transfer', () => {
    const [group] = view([reduce(0, 1, 30), reduce(1, 1, 100), reduce(0, 2, 80), reduce(1, 2, 20)]).groups;
    assert.equal(group?.transfer, 50);
    assert.equal(group?.count, 2);
    assert.deepEqual([...(group?.durations ?? [])], [110, 120]);
  });

  it('says that others waited for the last to arrive, not that it was slow itself', () => {
    const [group] = view([reduce(0, 1, 10), reduce(1, 1, 110), reduce(2, 1, 108), reduce(3, 1, 112)]).groups;
    assert.deepEqual(group && [...lateness(group)], [100, -2, 2, -4]);
  });

  it('works between two ranks', () => {
    const [group] = view([reduce(0, 1, 10), reduce(1, 1, 110)]).groups;
    assert.deepEqual(group && [...lateness(group)], [100, -100]);
  });

  it("leaves out a rank that another clock timed: its launch would be everybody's transfer", () => {
    const ranks = [0, 1, 2].map((rank) => ({ rank, clock: rank === 2 ? ('host' as const) : ('gpu' as const) }));
    const rows = [reduce(0, 1, 41_057), reduce(1, 1, 41_060), reduce(2, 1, 5)];
    const { groups, otherClock } = view(rows, newJobMeta('job', { ranks }));
    assert.deepEqual([groups.map(({ slots }) => slots), groups[0]?.transfer, otherClock], [[[0, 1]], 41_057, [2]]);
    assert.equal(view(rows).groups[0]?.transfer, 5);
  });

  it('uses the transfer that the collector knew of summed rows', () => {
    const [group] = view([reduce(0, -1, 700, { transfer_ns: 500 }), reduce(1, -1, 900, { transfer_ns: 500 })]).groups;
    assert.equal(group?.transfer, 500);
  });

  it('adds the transfers of several summed rows, by operation and size', () => {
    const sum = (rank: number, phase: string, bytes: number, transfer_ns: number): Row =>
      reduce(rank, -1, 900, { phase, op: phase, bytes, transfer_ns, count: 4 });
    const rows = [0, 1].flatMap((rank) => [sum(rank, 'all_reduce', 64, 500), sum(rank, 'all_gather', 32, 200)]);
    const [group] = view(rows).groups;
    assert.equal(group?.transfer, 700);
    assert.deepEqual(group?.sizes, [
      { key: 'dp|all_reduce|16', op: 'all_reduce', bytes: 16, count: 4, transfer: 500 },
      { key: 'dp|all_gather|8', op: 'all_gather', bytes: 8, count: 4, transfer: 200 },
    ]);
  });

  it('tells collectives apart in whatever order ranks report them', () => {
    const [group] = view([
      ...[reduce(0, 1, 10), reduce(0, 2, 20), reduce(0, 3, 30)],
      ...[reduce(1, 3, 31), reduce(1, 1, 5), reduce(1, 2, 50)],
      ...[reduce(2, 2, 19), reduce(2, 4, 1), reduce(2, 3, 40), reduce(2, 1, 60)],
      ...[reduce(0, 4, 2), reduce(1, 4, 3)],
    ]).groups;
    assert.equal(group?.transfer, 5 + 19 + 30 + 1);
    assert.equal(group?.count, 4);
  });

  it('knows no transfer where a rank did not report a collective', () => {
    const [group] = view([reduce(0, 1, 30), reduce(1, 1, 100), reduce(0, 2, 80)]).groups;
    assert.equal(group?.transfer, -1);
  });

  it('leaves collectives across pipeline stages out of what tells who is late', () => {
    const meta = newJobMeta('job', { ranks: [0, 1].map((rank) => ({ rank, stage: rank })) });
    const [group] = view(
      [reduce(0, 1, 10, { group: 'embedding' }), reduce(1, 1, 400, { group: 'embedding' })],
      meta,
    ).groups;
    assert.equal(group?.sameStage, false);
  });

  it('does not take point-to-point transfers for collectives', () => {
    const send = { phase: 'send', op: 'send' };
    assert.deepEqual(view([reduce(0, 1, 10, send), reduce(1, 1, 400, send)]).groups, []);
  });
});

describe("a rank's own work", () => {
  const forward = (facts: Partial<Row> = {}): Row => ({ rank: 0, step: 0, phase: 'forward', dur_ns: 100, ...facts });

  it('is summed by class, collectives and checkpoints apart', () => {
    const { work } = view([
      forward(),
      forward({ phase: 'dataload', dur_ns: 7 }),
      forward({ phase: 'host_gap', dur_ns: 5 }),
      forward({ phase: 'd2h', dur_ns: 3 }),
      forward({ phase: 'checkpoint', dur_ns: 1000 }),
      forward({ phase: 'all_reduce', dur_ns: 50 }),
    ]);
    assert.deepEqual([work.compute[0], work.data[0], work.host[0], work.memory[0]], [100, 7, 5, 3]);
  });

  it('counts launch gaps as host time where GPU time is known', () => {
    const { work } = view([forward({ busy_ns: 60 })]);
    assert.deepEqual([work.compute[0], work.host[0]], [60, 40]);
  });

  it('does not count parts of a whole phase twice', () => {
    const { work } = view([
      forward({ phase: 'decode' }),
      forward({ phase: 'attention', dur_ns: 60 }),
      forward({ phase: 'mlp', dur_ns: 30 }),
    ]);
    assert.equal(work.compute[0], 100);
  });

  it('sums the tokens of microbatches once, whatever phases repeat them', () => {
    const batch = (microbatch: number, phase: string): Row => forward({ microbatch, phase, tokens: 512 });
    const { tokens, microbatches } = view([
      batch(0, 'forward'),
      batch(1, 'forward'),
      batch(0, 'backward'),
      batch(1, 'backward'),
    ]);
    assert.deepEqual([tokens[0], microbatches[0]], [1024, 2]);
  });

  it('says little in a serving step that was launched kernel by kernel', () => {
    assert.equal(view([forward({ phase: 'attention', graph: 0, decode_tokens: 8 })]).launchBound, true);
    assert.equal(view([forward({ phase: 'attention', graph: 8, decode_tokens: 8 })]).launchBound, false);
    assert.equal(view([forward({ graph: 0, tokens: 4096 })]).launchBound, false, 'training may be eager');
  });
});

describe('gaps between steps', () => {
  const two = (begin: number, extra: Row[] = []): StepView[] =>
    views([
      { rank: 0, step: 1, phase: 'forward', dur_ns: 100, at: 0 },
      { rank: 0, step: 2, phase: 'forward', dur_ns: 100, at: begin },
      ...extra,
    ]);

  it('are what no row explains', () => {
    const [, second] = two(150, [{ rank: 0, step: 2, phase: 'dataload', dur_ns: 20, at: 120 }]);
    assert.equal(second?.gap[0], 30);
    assert.equal(second?.stepTime[0], 150);
  });

  it('are unknown, never negative, where a clock stepped back', () => {
    const [, second] = two(-5_000);
    assert.ok(Number.isNaN(second?.gap[0]));
    assert.equal(second?.stepTime[0], 100);
  });
});

describe('time inside a step that none of its phases explains', () => {
  const step = (rank: number, at: number, dur_ns: number): Row => ({ rank, step: 0, phase: 'step', at, dur_ns });
  const phases: Row[] = [
    { rank: 0, step: 0, phase: 'attention', at: 100, dur_ns: 300 },
    { rank: 0, step: 0, phase: 'all_reduce', at: 450, dur_ns: 250 },
  ];

  it('is what the step lasts beyond them', () => {
    const { idle, gap } = view([step(0, 100, 700), ...phases]);
    assert.deepEqual([...idle], [150]);
    assert.deepEqual([...gap], [Number.NaN]);
  });

  it('is no time that a host row explains, within the step or before it', () => {
    const before: Row[] = [
      { rank: 0, step: 0, phase: 'attention', at: 0, dur_ns: 50 },
      { rank: 0, step: 1, phase: 'host_gap', at: 50, dur_ns: 50 },
    ];
    const second = [step(0, 100, 700), ...phases, { rank: 0, step: 0, phase: 'launch_gap', at: 400, dur_ns: 50 }];
    const [, view] = views([...before, ...second.map((row) => ({ ...row, step: 1 }))]);
    assert.deepEqual([...(view?.idle ?? [])], [100]);
  });

  it('is unknown where nothing but the step was sent, and in a pipeline that does not say when it waits', () => {
    assert.deepEqual([...view([step(0, 100, 700)]).idle], [Number.NaN]);
    const meta = newJobMeta('job', { ranks: [0, 1].map((rank) => ({ rank, stage: rank })) });
    const recv: Row = { rank: 1, step: 0, phase: 'recv', op: 'recv', at: 100, dur_ns: 500 };
    const idle = (rows: Row[]): number[] => [
      ...view([step(0, 100, 700), ...phases, step(1, 100, 700), ...rows], meta).idle,
    ];
    assert.deepEqual(idle([]), [Number.NaN, Number.NaN]);
    assert.deepEqual(idle([recv]), [Number.NaN, 200]);
  });

  it('counts a moment once where phases overlap, in whatever order they come', () => {
    const reduce = (at: number, dur_ns: number, seq: number): Row => ({
      ...{ rank: 0, step: 0, phase: 'all_reduce', op: 'all_reduce', seq, at, dur_ns },
    });
    const backward: Row = { rank: 0, step: 0, phase: 'backward', at: 150, dur_ns: 300 };
    const rows = [step(0, 100, 700), backward, reduce(200, 200, 0), reduce(400, 250, 1), reduce(20, 40, 2)];
    assert.deepEqual([...view(rows).idle], [200]);
    assert.deepEqual([...view(rows.reverse()).idle], [200]);
  });
});
