import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { confusion, medianAndMax, poissonUpper, precision, recall } from '../../eval/metrics.js';

test('precision and recall are shares; of nothing they are unknown', () => {
  assert.equal(precision(3, 1), 0.75);
  assert.equal(recall(9, 1), 0.9);
  assert.equal(precision(0, 2), 0);
  assert.ok(Number.isNaN(precision(0, 0)));
  assert.ok(Number.isNaN(recall(0, 0)));
});

test('median and maximum', () => {
  assert.deepEqual(medianAndMax([5, 1, 3]), { median: 3, max: 5 });
  assert.deepEqual(medianAndMax([4, 1, 2, 10]), { median: 3, max: 10 });
  assert.ok(Number.isNaN(medianAndMax([]).median));
});

test('the upper end of a Poisson mean is that of published tables', () => {
  // One-sided 95 %: half of the chi-square quantile with 2 (n + 1) degrees of freedom.
  for (const [count, upper] of [
    [0, 2.996],
    [1, 4.744],
    [5, 10.513],
    [10, 16.962],
    [100, 118.08],
  ] as const)
    assert.ok(Math.abs(poissonUpper(count) / upper - 1) < 1e-3, `${count}: ${poissonUpper(count)}`);
});

test('the upper end lies above the count and grows with it', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 500 }), (count) => {
      assert.ok(poissonUpper(count) > count);
      assert.ok(poissonUpper(count + 1) > poissonUpper(count));
    }),
  );
});

test('a confusion matrix counts pairs', () => {
  const matrix = confusion([
    ['a', 'a'],
    ['a', 'b'],
    ['a', 'a'],
    ['b', 'nothing'],
  ]);
  assert.deepEqual(
    [...(matrix.get('a') ?? [])],
    [
      ['a', 2],
      ['b', 1],
    ],
  );
  assert.equal(matrix.get('b')?.get('nothing'), 1);
});
