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
