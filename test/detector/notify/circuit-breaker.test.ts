import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CircuitBreaker } from '../../../detector/notify/circuit-breaker.js';
import { DEFAULT_RETRY } from '../../../detector/notify/retry.js';

test('it opens after failures in a row, waits longer each time but not for ever, and closes at the first success', () => {
  const breaker = new CircuitBreaker(DEFAULT_RETRY, () => 0);
  for (let i = 0; i < 4; i++) breaker.failed(0);
  breaker.succeeded();
  for (let i = 0; i < 4; i++) breaker.failed(0);
  assert.deepEqual([breaker.open, breaker.untilMs], [false, 0]);
  const waits: number[] = [];
  let now = 0;
  for (let i = 0; i < 8; i++) {
    breaker.failed(now);
    waits.push(breaker.untilMs - now);
    now = breaker.untilMs;
  }
  assert.deepEqual(waits, [5_000, 10_000, 20_000, 40_000, 80_000, 150_000, 150_000, 150_000]);
  assert.ok(breaker.open);
  breaker.succeeded();
  assert.ok(!breaker.open);
});

test('its waits spread over an octave, and a longer pause that was asked for stands', () => {
  const breaker = new CircuitBreaker(DEFAULT_RETRY, () => 0.999);
  for (let i = 0; i < 5; i++) breaker.failed(0);
  assert.ok(breaker.untilMs > 9_900 && breaker.untilMs < 10_000);
  breaker.pause(60_000);
  breaker.pause(30_000);
  assert.equal(breaker.untilMs, 60_000);
});
