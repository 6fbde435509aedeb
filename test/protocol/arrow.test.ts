import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Float64, Int32, Int64, tableFromIPC, Utf8, vectorFromArray } from 'apache-arrow';
import fc from 'fast-check';
import { decodePhases, encodePhases } from '../../protocol/arrow.js';
import { newJobMeta } from '../../protocol/job-meta.js';
import { MAX_MESSAGE_BYTES } from '../../protocol/limits.js';
import { foreign } from './arrow-messages.js';
import { batchOf, possibleRow, rowsOf } from './rows.js';

test('int64 nanoseconds and every other value survive the wire exactly', () => {
  fc.assert(
    fc.property(fc.array(possibleRow, { maxLength: 30 }), (rows) => {
      const batch = batchOf(rows);
      assert.deepEqual(rowsOf(decodePhases(encodePhases(batch))), rowsOf(batch));
    }),
  );
});

test('the facts of the job survive the wire', () => {
  const meta = newJobMeta('job', {
    run: '3',
    host: 'node-a',
    model: '8B',
    groups: { tp0: [0, 1] },
    ranks: [{ rank: 0, dp: 1, stage: 2, gpu: 'GPU-1' }],
  });
  assert.deepEqual(decodePhases(encodePhases(batchOf([{}], meta))).meta, meta);
});

test('another major version is refused by its name', () => {
  assert.throws(() => decodePhases(foreign({}, 'phases/2')), {
    code: 'unsupported_version',
    message: /schema "phases\/2" is not supported; this reader knows phases\/1/,
  });
});

test('another schema is refused by its name', () => {
  assert.throws(() => decodePhases(foreign({}, 'samples/1')), {
    code: 'bad_input',
    message: /"samples\/1" where "phases\/1"/,
  });
});

test('columns that the reader does not know are skipped', () => {
  const unknown = { power_w: vectorFromArray([700.5], new Float64()) };
  assert.deepEqual(rowsOf(decodePhases(foreign(unknown))), rowsOf(batchOf([{}])));
});

test('columns of another width are read, and nulls take the default', () => {
  const row = rowsOf(
    decodePhases(
      foreign({
        rank: vectorFromArray([5n], new Int64()),
        step: vectorFromArray([9], new Int32()),
        dur_ns: vectorFromArray([12], new Float64()),
        phase: vectorFromArray(['backward'], new Utf8()),
        tokens: vectorFromArray([null], new Int32()),
        request: vectorFromArray([null], new Utf8()),
      }),
    ),
  )[0];
  assert.deepEqual(row, rowsOf(batchOf([{ rank: 5, step: 9n, dur_ns: 12n, phase: 'backward', tokens: -1 }]))[0]);
});

test('a required column that is missing or null is named', () => {
  assert.throws(() => decodePhases(foreign({ start_ns: undefined })), {
    message: /"start_ns": required column is missing/,
  });
  const holes = foreign({ start_ns: vectorFromArray([null], new Int64()) });
  assert.throws(() => decodePhases(holes), { message: /"start_ns": row 0 has no value/ });
});

test('what is not an Arrow stream is refused', () => {
  assert.throws(() => decodePhases(new TextEncoder().encode('{"rank":0}')), { code: 'bad_input' });
});

test('a message over the limit is refused by the sender', () => {
  const rows = Array.from({ length: 60 }, (_, i) => ({ request: `${i}`.padEnd(MAX_MESSAGE_BYTES / 50, 'x') }));
  assert.throws(() => encodePhases(batchOf(rows)), { code: 'too_large', message: /send fewer rows a message/ });
});

test('optional columns without a value are left out of the message', () => {
  const names = tableFromIPC(encodePhases(batchOf([{}]))).schema.fields.map((field) => field.name);
  assert.ok(names.includes('flags'));
  assert.ok(!names.includes('kv_usage'));
});
