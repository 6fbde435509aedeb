import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { nanosecondsOf, stampOf } from '../../importers/nanoseconds.js';

test('decimals of a microsecond become whole nanoseconds', () => {
  assert.equal(nanosecondsOf('100.7'), 100_700n);
  assert.equal(nanosecondsOf('0.2'), 200n);
  assert.equal(nanosecondsOf('7889237999000.5'), 7_889_237_999_000_500n);
  assert.equal(nanosecondsOf('-1'), -1000n);
  assert.equal(nanosecondsOf('1.5e3'), 1_500_000n);
  assert.equal(nanosecondsOf('5e-4'), 1n);
  assert.equal(nanosecondsOf('4e-4'), 0n);
  assert.equal(nanosecondsOf('2.0004999'), 2000n);
  assert.equal(nanosecondsOf('2.0005'), 2001n);
});

test('what is not a number is not a time', () => {
  for (const text of ['', '.5', 'NaN', '1,5', '0x10', '--1', '1e', '1e9999'])
    assert.equal(nanosecondsOf(text), undefined);
});

test('every int64 of nanoseconds survives as decimal microseconds', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }), (ns) => {
      const microseconds = `${ns / 1000n}.${String(ns % 1000n).padStart(3, '0')}`;
      const text = `{"args":{"ts":1},"ts":${microseconds}}`;
      assert.equal(stampOf(text, 'ts', JSON.parse(text).ts), ns);
    }),
  );
});

test('a field of the same name within args is not taken', () => {
  const text = '{"args": {"ts": 5.5, "dur": "8"}, "ts": 1365627865398.728, "dur": 1.6}';
  assert.equal(stampOf(text, 'ts', 1365627865398.728), 1_365_627_865_398_728n);
  assert.equal(stampOf(text, 'dur', 1.6), 1600n);
});

test('stamps written as text are read, others are none', () => {
  assert.equal(stampOf('{"ts":"100.7"}', 'ts', '100.7'), 100_700n);
  assert.equal(stampOf('{"ts":null}', 'ts', null), undefined);
  assert.equal(stampOf('{}', 'ts', undefined), undefined);
});
