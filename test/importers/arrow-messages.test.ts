import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodePhases } from '../../protocol/arrow.js';
import { newJobMeta } from '../../protocol/job-meta.js';
import { PhaseBatchBuilder } from '../../protocol/phase-batch.js';
import { folderOf, importAll, importFile } from './import.js';

/** A message of one row. */
function message(host: string, rank: number, step: number): Uint8Array {
  const builder = new PhaseBatchBuilder(newJobMeta('j', { host, ranks: [{ rank, clock: 'gpu' }] }));
  builder.push({ rank, step, phase: 'forward', start_ns: 1770000000000000000n + BigInt(step), dur_ns: 5 });
  return encodePhases(builder.take());
}

test("a collector's files are read in the order in which they were written, hosts side by side", async (t) => {
  const folder = folderOf(t, {
    'a/j-1000-9.arrows': message('a', 0, 0),
    'a/j-1000-10.arrows': message('a', 0, 1),
    'a/j-2000-2.arrows': message('a', 0, 2),
    'a/collector.json': '{"collector":"a"}',
    'b/j-1500-0.arrows': message('b', 1, 0),
    'b/j-1500-1.arrows': message('b', 1, 2),
  });
  const { rows, batches, report } = await importAll(folder);
  const steps = (host: string) => rows.filter((row) => row.host === host).map(({ step }) => Number(step));
  assert.deepEqual(
    [steps('a'), steps('b')],
    [
      [0, 1, 2],
      [0, 2],
    ],
  );
  assert.deepEqual(batches[0]?.meta.ranks[0]?.clock, 'gpu');
  assert.deepEqual(
    report.unclaimed.map((path) => path.slice(folder.length)),
    ['/a/collector.json'],
  );
});

test('--job renames the job of the rows', async (t) => {
  const { rows } = await importFile(t, 'any.arrows', message('a', 0, 0), { job: 'other' });
  assert.deepEqual(rows[0]?.job, 'other');
});

test('a file that is cut short, or no message of rows, is refused by name', async (t) => {
  const cut = message('a', 0, 0).subarray(0, 700);
  await assert.rejects(importFile(t, 'cut.arrows', cut), { code: 'bad_input', message: /cut\.arrows: / });
  await assert.rejects(importFile(t, 'text.arrows', 'no arrow'), { code: 'bad_input', message: /text\.arrows: / });
});
