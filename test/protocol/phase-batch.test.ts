import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { COLUMN_NAMES, columnSpec } from '../../protocol/columns.js';
import { newJobMeta } from '../../protocol/job-meta.js';
import { PhaseBatchBuilder, rowOf } from '../../protocol/phase-batch.js';
import { possibleRow } from './rows.js';

test('a row with only what is required has the default of every other column', () => {
  const builder = new PhaseBatchBuilder(newJobMeta('job'));
  builder.push({ rank: 3, step: 7, phase: 'forward', start_ns: 11n, dur_ns: 13 });
  const row = rowOf(builder.take(), 0);
  const given = { rank: 3, step: 7n, phase: 'forward', start_ns: 11n, dur_ns: 13n };
  for (const name of COLUMN_NAMES) {
    const value = given[name as keyof typeof given] ?? columnSpec(name).absent;
    assert.ok(row[name] === value || row[name] === BigInt(value as number), name);
  }
});

test('rows are read back as they were pushed, however often the columns grow', () => {
  fc.assert(
    fc.property(fc.array(possibleRow, { maxLength: 40 }), (rows) => {
      const builder = new PhaseBatchBuilder(newJobMeta('job'), 1);
      for (const row of rows) builder.push(row);
      const batch = builder.take();
      assert.equal(batch.length, rows.length);
      for (const [i, row] of rows.entries()) assert.deepEqual(rowOf(batch, i), row);
    }),
  );
});

test('after take the builder starts empty, and the taken batch does not change', () => {
  const builder = new PhaseBatchBuilder(newJobMeta('job'), 2);
  const row = { rank: 0, step: 1, phase: 'first', start_ns: 1n, dur_ns: 1n };
  builder.push(row);
  const first = builder.take();
  builder.push({ ...row, phase: 'second' });
  assert.equal(rowOf(first, 0).phase, 'first');
  const second = builder.take();
  assert.equal(second.length, 1);
  assert.deepEqual(second.columns.phase.values, ['second']);
});
