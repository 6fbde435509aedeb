import assert from 'node:assert/strict';
import { test } from 'node:test';
import { activeFault, type Fault, isActive, strengthOf, transferFactor } from '../../simulator/faults.js';
import { interpolate } from '../../simulator/interpolate.js';

const MB = 1024 * 1024;
const fault = (facts: Partial<Fault>): Fault => ({
  ...{ effect: 'compute', ranks: new Set([1]), onset: 10, end: 20, strength: 0.4 },
  truth: { job: 'j', kind: 'straggler', cause: 'compute', subject: {}, onset_step: 10, strength: 0.4 },
  ...facts,
});

test('a fault strikes its ranks from its onset to before its end, or in some of these steps only', () => {
  const faults = [fault({}), fault({ strength: 0.1, onset: 15 })];
  assert.deepEqual(
    [9, 10, 15, 19, 20].map((step) => strengthOf(faults, 'compute', 1, step)),
    [0, 0.4, 0.5, 0.5, 0],
  );
  assert.equal(strengthOf(faults, 'compute', 2, 12), 0);
  assert.equal(strengthOf(faults, 'host', 1, 12), 0);
  const some = fault({ steps: new Set([9, 11]) });
  assert.deepEqual(
    [9, 10, 11].map((step) => isActive(some, step)),
    [false, false, true],
  );
  assert.equal(activeFault([some], 'compute', 11), some);
  assert.equal(activeFault([some], 'compute', 12), undefined);
});

test('drift grows evenly to its strength at the end', () => {
  const drift = [fault({ effect: 'drift' })];
  assert.deepEqual(
    [9, 10, 14, 19].map((step) => Math.round(1000 * strengthOf(drift, 'drift', 1, step))),
    [0, 40, 200, 400],
  );
});

test('a slow transfer slows the sizes that it is about', () => {
  const factor = (sizes: Fault['sizes'], bytes: number): number =>
    transferFactor(
      [fault({ effect: 'transfer', groups: new Set(['g']), ...(sizes && { sizes }), strength: 2 })],
      'g',
      bytes,
      10,
    );
  assert.deepEqual(
    [8, 64 * MB].map((bytes) => factor('all', bytes)),
    [3, 3],
  );
  assert.deepEqual(
    [63 * MB, 64 * MB].map((bytes) => factor('large', bytes)),
    [1, 3],
  );
  assert.deepEqual(
    [8192, 384 * 1024, 900 * MB].map((bytes) => factor('small', bytes)),
    [3, 1, 1],
  );
  assert.ok(Math.abs(factor('host_memory', 900 * MB) - (1 + 2 * 2.64)) < 1e-9);
  assert.equal(transferFactor([fault({ effect: 'transfer', groups: new Set(['g']) })], 'other', 8, 10), 1);
});

test('between its points a function is linear, beyond them as between the last two', () => {
  const points = [
    [1, 10],
    [3, 20],
    [4, 0],
  ] as const;
  assert.deepEqual(
    [0, 1, 2, 3, 3.5, 5].map((x) => interpolate(points, x)),
    [10, 10, 15, 20, 10, -20],
  );
});
