import assert from 'node:assert/strict';
import { it } from 'node:test';
import { judge, type Phase, trace } from '../../support/trace.js';

/** Two ranks; in step 30 rank 0 lacks what `without` names. */
function partialSteps(without: string): number {
  const phases = (step: number, rank: number): Phase[] =>
    [
      { phase: 'forward', ms: 30 },
      { phase: 'all_reduce', ms: 5 },
      ...(step % 10 === 0 ? [{ phase: 'checkpoint', ms: 20 }] : []),
    ].filter(({ phase }) => !(step === 30 && rank === 0 && phase === without));
  return judge(trace({ ranks: 2, steps: 40, period: 60, phases })).pipeline.counts().partialSteps;
}

it('a rank that lacks a phase of every step is incomplete there', () => {
  assert.equal(partialSteps('forward'), 1);
  assert.equal(partialSteps('nothing'), 0);
});

it('a phase that comes now and then need not be there', () => {
  assert.equal(partialSteps('checkpoint'), 0);
});
