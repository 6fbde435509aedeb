import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { epochNsOf } from '../../../detector/store/incident-query.js';
import { timestampOf } from '../../../protocol/incident.js';

test('nanoseconds come through text unchanged', () => {
  fc.assert(fc.property(fc.bigInt(0n, 2n ** 63n - 1n), (ns) => assert.equal(epochNsOf(timestampOf(ns)), ns)));
});

test('fractions of any length, offsets and times beyond int64', () => {
  assert.equal(epochNsOf('1970-01-01T00:00:00Z'), 0n);
  assert.equal(epochNsOf('1970-01-01T00:00:00.5Z'), 500_000_000n);
  assert.equal(epochNsOf('1970-01-01T00:00:00.1234567891Z'), 123_456_789n);
  assert.equal(epochNsOf('1970-01-01T02:00:01.25+02:00'), 1_250_000_000n);
  assert.equal(epochNsOf('9999-12-31T23:59:59Z'), 2n ** 63n - 1n);
  assert.equal(epochNsOf('0001-01-01T00:00:00Z'), -(2n ** 63n) + 1n);
});
