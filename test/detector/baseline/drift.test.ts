import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { driftOf } from '../../../detector/baseline/drift.js';
import { seededRandom } from '../../../detector/baseline/random.js';

const uniform = (n: number, least = 0, most = 1): number[] => {
  const random = seededRandom(n);
  return Array.from({ length: n }, () => least + (most - least) * random());
};

describe('drift of a baseline', () => {
  it('is not seen in steps that take what was expected', () => {
    const drift = driftOf([...uniform(1000), undefined, Number.NaN]);
    assert.equal(drift.tests, 1000);
    assert.equal(drift.retrain, false);
    assert.ok(Math.abs(drift.slow - 0.05) < 0.02 && Math.abs(drift.fast - 0.05) < 0.02);
  });

  it('calls for training when steps have become slower, or faster', () => {
    assert.equal(driftOf(uniform(1000, 0, 0.1)).retrain, true);
    assert.equal(driftOf(uniform(1000, 0.9, 1)).retrain, true);
  });

  it('says nothing of few steps', () => {
    assert.equal(driftOf(uniform(50, 0, 0.01)).retrain, false);
    assert.deepEqual(driftOf([]), { tests: 0, slow: Number.NaN, fast: Number.NaN, retrain: false });
  });
});
