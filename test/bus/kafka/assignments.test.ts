import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Assignment, Assignments } from '../../../bus/kafka/assignments.js';

const partitions = (...numbers: number[]) => numbers.map((partition) => ({ topic: 't', partition }));
const numbers = (assignments: readonly Assignment[]) => assignments.map(({ partition }) => partition.partition);

test('a rebalance says what came, what went and what stayed; what stayed keeps its position', () => {
  const assignments = new Assignments();
  assert.deepEqual(numbers(assignments.replace(partitions(0, 1, 2), true).come), [0, 1, 2]);
  const one = assignments.get('t', 1) as Assignment;
  one.position = 17n;
  const { gone, come, kept } = assignments.replace(partitions(1, 3), true);
  assert.deepEqual([numbers(gone), numbers(come), numbers(kept)], [[0, 2], [3], [1]]);
  assert.equal(assignments.get('t', 1)?.position, 17n);
  assert.ok(assignments.isCurrent(one));
  assert.equal(assignments.get('t', 0), undefined);
});

test('after a rebalance that was missed all partitions come anew, as another may have had them', () => {
  const assignments = new Assignments();
  assignments.replace(partitions(0, 1), true);
  const zero = assignments.get('t', 0) as Assignment;
  zero.position = 17n;
  const { gone, come, kept } = assignments.replace(partitions(0, 1), false);
  assert.deepEqual([numbers(gone), numbers(come), numbers(kept)], [[0, 1], [0, 1], []]);
  assert.equal(assignments.isCurrent(zero), false);
  assert.equal(assignments.get('t', 0)?.position, 0n);
});

test('a partition that went and came again is another one', () => {
  const assignments = new Assignments();
  assignments.replace(partitions(0), true);
  const before = assignments.get('t', 0) as Assignment;
  assignments.replace([], true);
  assignments.replace(partitions(0), true);
  assert.equal(assignments.isCurrent(before), false);
});
