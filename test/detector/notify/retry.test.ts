import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { DEFAULT_RETRY, octaveMs, parseRetryAfter, verdictOf } from '../../../detector/notify/retry.js';

test('only what can pass is tried again', () => {
  const statuses: Record<ReturnType<typeof verdictOf>, (number | undefined)[]> = {
    delivered: [200, 201, 202, 204, 299],
    retry: [undefined, 408, 425, 429, 500, 502, 503, 504, 599],
    reject: [301, 302, 307, 308, 304, 400, 401, 403, 404, 410, 413, 422],
  };
  for (const [verdict, list] of Object.entries(statuses))
    for (const status of list) assert.equal(verdictOf(status), verdict, String(status));
});

test('gaps grow whatever the jitter, and spread over all of their octave', () => {
  const random = fc.double({ min: 0, max: 0.999, noNaN: true });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 8 }), random, random, (attempts, a, b) => {
      assert.ok(octaveMs(attempts + 1, DEFAULT_RETRY, b) > octaveMs(attempts, DEFAULT_RETRY, a));
    }),
  );
  assert.equal(octaveMs(1, DEFAULT_RETRY, 0), DEFAULT_RETRY.baseMs);
  assert.ok(octaveMs(1, DEFAULT_RETRY, 0.999) > 1.99 * DEFAULT_RETRY.baseMs);
  assert.equal(octaveMs(100, DEFAULT_RETRY, 0), DEFAULT_RETRY.maxMs);
});

test('twelve attempts cover an outage of 2.4 hours whatever the jitter', () => {
  let total = 0;
  for (let attempts = 1; attempts < 12; attempts++) total += octaveMs(attempts, DEFAULT_RETRY, 0);
  assert.ok(total > 2.4 * 3_600_000);
});

test('Retry-After is seconds or a date', () => {
  const now = Date.parse('2026-03-01T10:00:00Z');
  assert.equal(parseRetryAfter('120', now), 120_000);
  assert.equal(parseRetryAfter(' 0 ', now), 0);
  assert.equal(parseRetryAfter('Sun, 01 Mar 2026 10:02:00 GMT', now), 120_000);
  assert.equal(parseRetryAfter('Sun, 01 Mar 2026 09:00:00 GMT', now), 0);
  for (const header of [null, '', 'soon', '-']) assert.equal(parseRetryAfter(header, now), undefined);
});
