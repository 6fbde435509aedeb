import assert from 'node:assert/strict';
import { test } from 'node:test';
import { importFile } from './import.js';

const line = (fields: object) =>
  JSON.stringify({ job: 'j', rank: 0, step: 0, phase: 'allreduce', start_ns: 100, dur_ns: 5, ...fields });

test('phases that a rank repeats within a step are numbered by start', async (t) => {
  const lines = [
    line({ start_ns: 300 }),
    line({ start_ns: 100, rank: 1 }),
    line({ start_ns: 100, open: true }),
    line({ start_ns: 100, dur_ns: 7 }),
    line({ start_ns: 200 }),
    line({ start_ns: 200, rank: 1 }),
    line({ step: 1, start_ns: 400 }),
  ];
  const { rows } = await importFile(t, 'a.jsonl', lines.join('\n'));
  assert.deepEqual(
    rows.map((row) => [row.step, row.rank, row.start_ns, row.seq]),
    [
      [0n, 0, 300n, 2n],
      [0n, 1, 100n, 0n],
      [0n, 0, 100n, 0n],
      [0n, 0, 100n, 0n],
      [0n, 0, 200n, 1n],
      [0n, 1, 200n, 1n],
      [1n, 0, 400n, -1n],
    ],
  );
});

test('what differs in layer, microbatch, group or seq is no repeat, nor is the same phase sent twice', async (t) => {
  const lines = [
    line({ layer: 0 }),
    line({ layer: 1, start_ns: 200 }),
    line({ microbatch: 0, start_ns: 300 }),
    line({ group: 'tp', start_ns: 400 }),
    line({ seq: 9, start_ns: 500 }),
    line({ seq: 9, start_ns: 500 }),
    line({ phase: 'fwd', start_ns: 600 }),
    line({ phase: 'fwd', start_ns: 600 }),
  ];
  const { rows } = await importFile(t, 'a.jsonl', lines.join('\n'));
  assert.deepEqual(
    rows.map(({ seq }) => seq),
    [-1n, -1n, -1n, -1n, 9n, 9n, -1n, -1n],
  );
});
