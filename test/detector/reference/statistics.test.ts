import assert from 'node:assert/strict';
import { test } from 'node:test';
import { normalTail } from '../../../detector/reference/statistics.js';

test('tail of the normal distribution, as tables have it', () => {
  const table: [number, number][] = [
    [0, 0.5],
    [1, 0.158655254],
    [1.644853627, 0.05],
    [5, 2.866515719e-7],
    [8, 6.220960574e-16],
    [-1, 0.841344746],
  ];
  for (const [z, p] of table) assert.ok(Math.abs(normalTail(z) / p - 1) < 1e-6, `${z}: ${normalTail(z)}`);
});
