import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { MAX_DURATION_NS, MAX_RANK, MAX_START_NS } from '../../protocol/limits.js';
import type { PhaseRow } from '../../protocol/phase-batch.js';
import { checkRows } from '../../protocol/phase-checks.js';
import { keepRows } from '../../protocol/take-rows.js';
import { batchOf, possibleRow, rowsOf } from './rows.js';

/** The reasons for which these rows are dropped, with counts. */
function faultsOf(rows: readonly Partial<PhaseRow>[]): Record<string, number> {
  const { dropped } = checkRows(batchOf(rows));
  return Object.fromEntries([...dropped].map(([reason, { count }]) => [reason, count]));
}

test('a start of zero is dropped, whatever the duration', () => {
  assert.deepEqual(
    faultsOf([
      { start_ns: 0n, dur_ns: 0n },
      { start_ns: 0n, dur_ns: 40n },
    ]),
    { start_zero: 2 },
  );
});

test('a good start with a duration of zero is kept', () => {
  assert.equal(checkRows(batchOf([{ start_ns: 5n, dur_ns: 0n }])).keep, null);
});

test('starts before the epoch and beyond the limit are dropped', () => {
  assert.deepEqual(faultsOf([{ start_ns: -1n }, { start_ns: MAX_START_NS + 1000n }, { start_ns: MAX_START_NS }]), {
    start_out_of_range: 2,
  });
});

test('negative durations are dropped and the mean of the others stands', () => {
  const durations = [50n, 51n, -1n, 49n, -1_770_000_000_000n, 50n];
  const batch = batchOf(durations.map((dur_ns) => ({ dur_ns })));
  const { keep, dropped } = checkRows(batch);
  assert.deepEqual([...dropped], [['duration_negative', { count: 2, firstRow: 2 }]]);
  assert.ok(keep);
  const kept = rowsOf(keepRows(batch, keep)).map(({ dur_ns }) => Number(dur_ns));
  assert.equal(kept.reduce((a, b) => a + b) / kept.length, 50);
});

test('a duration of centuries is dropped, one of forty minutes is kept', () => {
  assert.deepEqual(
    faultsOf([
      { dur_ns: 7_447_334_400_000_000_000n },
      { phase: 'checkpoint', dur_ns: 40n * 60n * 1_000_000_000n },
      { dur_ns: BigInt(MAX_DURATION_NS) },
    ]),
    { duration_too_long: 1 },
  );
});

test('rows without the name of a phase are dropped', () => {
  assert.deepEqual(faultsOf([{ phase: '' }, { phase: 'decode' }, { phase: ' \t' }, { phase: 'my own' }]), {
    phase_empty: 2,
  });
});

test('ranks outside the array bounds and negative steps are dropped', () => {
  assert.deepEqual(faultsOf([{ rank: -1 }, { rank: MAX_RANK + 1 }, { rank: MAX_RANK }, { step: -1n }]), {
    rank_out_of_range: 2,
    step_negative: 1,
  });
});

test('counts below -1 are dropped, -1 means unknown', () => {
  assert.deepEqual(
    faultsOf([
      { tokens: -3 },
      { bytes: -2n },
      { bytes: -(2n ** 40n) },
      { kv_usage: Number.NaN },
      { tokens: -1, bytes: -1n },
    ]),
    { negative_value: 4 },
  );
});

test('a row with several faults is counted once', () => {
  assert.deepEqual(faultsOf([{ start_ns: 0n, dur_ns: -1n, rank: -1, tokens: -5 }]), { start_zero: 1 });
});

test('no possible row is dropped, and dropping leaves the others in order', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(possibleRow, fc.boolean())), (rows) => {
      const batch = batchOf(rows.map(([row, bad]) => (bad ? { ...row, dur_ns: -1n } : row)));
      const { keep } = checkRows(batch);
      const good = rowsOf(batchOf(rows.filter(([, bad]) => !bad).map(([row]) => row)));
      assert.deepEqual(rowsOf(keep ? keepRows(batch, keep) : batch), good);
    }),
  );
});
