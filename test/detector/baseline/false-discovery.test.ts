import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { falseDiscoveryControl } from '../../../detector/baseline/false-discovery.js';
import { seededRandom } from '../../../detector/baseline/random.js';

describe('false discovery control', () => {
  it('gives the worked example of Benjamini and Hochberg (1995)', () => {
    const p = [
      0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.324, 0.4262, 0.5719, 0.6528, 0.759, 1,
    ];
    assert.deepEqual(falseDiscoveryControl(p, 0.05), [0, 1, 2, 3]);
    assert.deepEqual(falseDiscoveryControl(p.toReversed(), 0.05), [11, 12, 13, 14]);
  });

  it('leaves out what was not tested', () => {
    assert.deepEqual(falseDiscoveryControl([undefined, 0.01, Number.NaN, 0.9], 0.05), [1]);
    assert.deepEqual(falseDiscoveryControl([], 0.05), []);
    assert.deepEqual(falseDiscoveryControl([undefined], 0.05), []);
  });

  for (const { ranks, bad } of [
    { ranks: 40, bad: 0 },
    { ranks: 40, bad: 4 },
    { ranks: 1000, bad: 100 },
  ])
    it(`keeps its rate with ${bad} of ${ranks} ranks bad, and finds them`, () => {
      const random = seededRandom(ranks + bad);
      const trials = 2000;
      let [falseShare, found] = [0, 0];
      for (let trial = 0; trial < trials; trial++) {
        const p = Array.from({ length: ranks }, (_, rank) => (rank < bad ? 1e-4 * random() : random()));
        const believed = falseDiscoveryControl(p, 0.1);
        const wrong = believed.filter((rank) => rank >= bad).length;
        falseShare += wrong / Math.max(1, believed.length);
        found += believed.length - wrong;
      }
      // Expected is rate x share of good ranks; five standard errors of the simulation are allowed.
      const expected = 0.1 * (1 - bad / ranks);
      const allowed = 5 * Math.sqrt((expected * (1 - expected)) / trials);
      assert.ok(falseShare / trials < expected + allowed, `${falseShare / trials}`);
      assert.equal(found, bad * trials);
    });
});
