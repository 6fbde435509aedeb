import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { judge, type Phase, trace } from '../../support/trace.js';

describe('transfers between hosts that are slow', () => {
  /** Two ranks of two hosts; from step 60 on their all-reduce takes so many times as long. */
  function kinds(times: (step: number) => number): string[] {
    const ranks = [0, 1].map((rank) => ({ rank, host: `node-${rank}` }));
    const phases = (step: number): Phase[] => [
      { phase: 'forward', ms: 400 },
      { phase: 'all_reduce', ms: 20 * (step < 60 ? 1 : times(step)), group: 'dp', bytes: 2 ** 28 },
    ];
    const spec = { ranks: 2, steps: 140, period: 500, phases, meta: { ranks, groups: { dp: [0, 1] } } };
    return judge(trace(spec)).incidents.map(({ kind }) => kind);
  }

  it('flap where they are as usual in between', () => {
    assert.deepEqual(
      kinds((step) => (step % 8 < 3 ? 6 : 1)),
      ['rnic_flap'],
    );
  });

  it('do not flap where they are only now and then less slow', () => {
    assert.deepEqual(
      kinds((step) => (step % 2 === 0 ? 3.3 : 2.7)),
      ['comm_slow'],
    );
  });
});

describe('all-reduces of an engine whose steps are of ever new sizes', () => {
  const SLOW_FROM = 60;

  /** What is said where they take twice as long from a step on, and later up to a step; one size comes back as often. */
  function said(knownEvery: (step: number) => number, end = Number.POSITIVE_INFINITY): unknown[][] {
    const phases = (step: number): Phase[] => {
      const bytes = step % knownEvery(step) === 0 ? 65_536 : 65_536 + 16 * step;
      const times = step >= SLOW_FROM && step < end ? 2 : 1;
      const facts = { decode_tokens: 8, prefill_tokens: 0, graph: 8 };
      return [
        { phase: 'attention', ms: 3, ...facts },
        { phase: 'all_reduce', ms: times * (bytes / 65_536), group: 'tp', bytes, ...facts },
      ];
    };
    const spec = { ranks: 2, steps: 300, period: 6, phases, meta: { groups: { tp: [0, 1] } } };
    return judge(trace(spec)).incidents.map(({ kind, onset_step, status }) => [kind, onset_step, status]);
  }

  it('are judged by the size that is known, and stay slow while it is not seen', () => {
    assert.deepEqual(
      said((step) => (step < 100 ? 2 : 40)),
      [['nvlink_stall', SLOW_FROM, 'open']],
    );
  });

  it('are no longer slow once that size is as quick as before', () => {
    assert.deepEqual(
      said(() => 2, 100),
      [['nvlink_stall', SLOW_FROM, 'resolved']],
    );
  });

  it('are not compared with smaller ones of long ago', () => {
    const phases = (step: number): Phase[] => {
      const [bytes, ms] = step < SLOW_FROM ? [2 ** 20, 0.2] : [2 ** 24, 10];
      return [
        { phase: 'forward', ms: 20 },
        { phase: 'all_reduce', ms, group: 'tp', bytes },
      ];
    };
    const kinds = (steps: number, both: boolean): string[] => {
      const spec = { ranks: 2, steps, period: 40, meta: { groups: { tp: [0, 1] } } };
      const of = (step: number) => [
        ...phases(step),
        ...(both
          ? phases(0)
              .slice(1)
              .map((p) => ({ ...p, seq: 1000 + step }))
          : []),
      ];
      return judge(trace({ ...spec, phases: of })).incidents.map(({ kind }) => kind);
    };
    assert.deepEqual(
      kinds(200, false).filter((kind) => kind === 'comm_slow'),
      [],
    );
    assert.deepEqual(
      kinds(200, true).filter((kind) => kind === 'comm_slow'),
      ['comm_slow'],
    );
  });
});

describe('transfers between two stages', () => {
  const SLOW_FROM = 60;

  /** Stage 0 computes and sends, stage 1 receives and computes; from a step on either takes so many times as long. */
  function said(times: { transfer: number; compute: number }, hosts: readonly [string, string]): unknown[][] {
    const phases = (step: number, rank: number): Phase[] => {
      const compute = step < SLOW_FROM ? 10 : 10 * times.compute;
      const transfer = step < SLOW_FROM ? 0.5 : 0.5 * times.transfer;
      const channel = { group: 'pp 0->1', bytes: 2 ** 25 };
      return rank === 0
        ? [
            { phase: 'forward', ms: compute },
            { phase: 'send', ms: transfer, ...channel },
          ]
        : [
            { phase: 'recv', ms: compute + transfer, ...channel },
            { phase: 'forward', ms: 10 },
          ];
    };
    const ranks = hosts.map((host, rank) => ({ rank, host, stage: rank, pp: rank }));
    const spec = { ranks: 2, steps: 140, period: 40, phases, meta: { ranks, groups: { 'pp 0->1': [0, 1] } } };
    return judge(trace(spec)).incidents.map(({ kind, subject, onset_step }) => [kind, subject.link, onset_step]);
  }

  it('are slow where the side that came last takes longer too', () => {
    assert.deepEqual(said({ transfer: 10, compute: 1 }, ['node-0', 'node-0']), [['nvlink_stall', '0-1', SLOW_FROM]]);
    assert.deepEqual(said({ transfer: 10, compute: 1 }, ['node-0', 'node-1']), [['comm_slow', null, SLOW_FROM]]);
  });

  it('are not where they cost next to nothing', () => {
    assert.deepEqual(said({ transfer: 1.6, compute: 1 }, ['node-0', 'node-0']), []);
  });

  it('are not where the stage before takes longer to have something to send', () => {
    const found = said({ transfer: 1, compute: 1.5 }, ['node-0', 'node-0']);
    assert.deepEqual(
      found.map(([kind]) => kind),
      ['straggler'],
    );
  });
});
