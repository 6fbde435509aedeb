import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { judge, type Phase, trace } from '../../support/trace.js';

describe('tokens of ranks', () => {
  /** Four ranks with these tokens each; rank 4 has sent one row of step 0 and nothing more. */
  function kinds(tokensOf: (step: number, rank: number) => number): string[] {
    const phases = (step: number, rank: number): Phase[] => {
      if (rank === 4 && step > 0) return [];
      const ms = tokensOf(step, rank) / 100;
      return [{ phase: 'forward', ms, tokens: tokensOf(step, rank) }];
    };
    return judge(trace({ ranks: 5, steps: 60, period: 100, phases })).incidents.map(({ kind }) => kind);
  }

  it('are even though a rank was seen once', () => {
    assert.deepEqual(
      kinds(() => 4096),
      [],
    );
  });

  it('are uneven where those of the others are', () => {
    assert.deepEqual(
      kinds((step, rank) => (rank === step % 4 ? 6144 : 4096)),
      ['load_imbalance'],
    );
  });
});
