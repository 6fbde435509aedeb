import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Int64Column, int64Of, toBigInt } from '../../protocol/int64.js';

const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });

test('a value is read back as it was set', () => {
  fc.assert(
    fc.property(int64, (value) => {
      const column = Int64Column.ofLength(2);
      column.set(1, value);
      assert.equal(column.bigint(1), value);
      assert.equal(column.bigint(0), 0n);
      assert.equal(column.asBigInt64Array()[1], value);
      assert.equal(toBigInt(int64Of(value)), value);
    }),
  );
});

test('a safe integer is the same set as number or as bigint', () => {
  fc.assert(
    fc.property(fc.maxSafeInteger(), (value) => {
      const column = Int64Column.ofLength(1);
      column.set(0, value);
      assert.equal(column.bigint(0), BigInt(value));
      assert.equal(column.number(0), value);
    }),
  );
});

test('a difference of epoch nanoseconds is exact', () => {
  fc.assert(
    fc.property(int64, fc.integer({ min: -(2 ** 52), max: 2 ** 52 }), (base, difference) => {
      const value = BigInt.asIntN(64, base + BigInt(difference));
      fc.pre(value - base === BigInt(difference));
      const column = Int64Column.ofLength(1);
      column.set(0, value);
      assert.equal(column.since(0, int64Of(base)), difference);
    }),
  );
});
