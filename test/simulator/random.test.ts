import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '../../simulator/random.js';

const draw = (random: Random, n: number): number[] => Array.from({ length: n }, () => random.normal());
const mean = (values: number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

test('a stream repeats itself, and differs from every neighbour', () => {
  assert.deepEqual(draw(Random.stream(1, 'a', 0), 5), draw(Random.stream(1, 'a', 0), 5));
  const others = [Random.stream(2, 'a', 0), Random.stream(1, 'b', 0), Random.stream(1, 'a', 1)];
  for (const other of others) assert.notDeepEqual(draw(other, 5), draw(Random.stream(1, 'a', 0), 5));
});

test('normal numbers have mean 0, deviation 1 and normal tails', () => {
  const values = draw(Random.stream(7, 'normal'), 100_000);
  assert.ok(Math.abs(mean(values)) < 0.015);
  assert.ok(Math.abs(Math.sqrt(mean(values.map((v) => v * v))) - 1) < 0.01);
  const tail = values.filter((v) => Math.abs(v) > 1.96).length / values.length;
  assert.ok(Math.abs(tail - 0.05) < 0.003, `${tail}`);
});

test('streams of neighbouring ranks are not correlated', () => {
  const a = draw(Random.stream(1, 'wander', 10), 20_000);
  const b = draw(Random.stream(1, 'wander', 11), 20_000);
  assert.ok(Math.abs(mean(a.map((v, i) => v * (b[i] as number)))) < 0.03);
});

test('below gives every integer of its range', () => {
  const random = Random.stream(3, 'below');
  const counts = [0, 0, 0];
  for (let i = 0; i < 3000; i++) counts[random.below(3)] = (counts[random.below(3)] as number) + 1;
  for (const count of counts) assert.ok(count > 850 && count < 1150, `${counts}`);
});
