import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { concatBatches, takeRows } from '../../protocol/take-rows.js';
import { batchOf, possibleRow, rowsOf } from './rows.js';

test('rows come in the order asked for, repeats included', () => {
  const batch = batchOf([{ phase: 'a' }, { phase: 'b' }, { phase: 'c' }]);
  const taken = takeRows(batch, Uint32Array.of(2, 0, 2));
  assert.deepEqual(
    rowsOf(taken).map(({ phase }) => phase),
    ['c', 'a', 'c'],
  );
});

test('a taken batch carries only the names its rows use', () => {
  const batch = batchOf(Array.from({ length: 100 }, (_, i) => ({ request: `request ${i}` })));
  assert.deepEqual(takeRows(batch, Uint32Array.of(7)).columns.request.values, ['request 7']);
});

test('batches joined and cut again are the same rows', () => {
  fc.assert(
    fc.property(fc.array(possibleRow), fc.array(possibleRow), (first, second) => {
      const joined = concatBatches([batchOf(first), batchOf(second)]);
      assert.deepEqual(rowsOf(joined), rowsOf(batchOf([...first, ...second])));
      const rows = Uint32Array.from(second, (_, i) => first.length + i);
      assert.deepEqual(rowsOf(takeRows(joined, rows)), rowsOf(batchOf(second)));
    }),
  );
});
