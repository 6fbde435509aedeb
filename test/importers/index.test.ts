import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { importPaths } from '../../importers/index.js';
import { MAX_MESSAGE_ROWS } from '../../protocol/limits.js';
import { KIND } from '../../protocol/vocabulary.js';
import { folderOf, importAll } from './import.js';

const EXCERPT = 'fixtures/h200-tp2-excerpt';
const line = '{"job":"j","rank":0,"step":0,"phase":"fwd","start_ns":1,"dur_ns":50}';

test('the bundled excerpt holds both ranks of two jobs, with their group and the host gaps', async () => {
  const { batches, report } = await importAll(EXCERPT);
  assert.deepEqual([...report.dropped.keys(), ...report.repaired.keys()], []);
  assert.deepEqual(report.unclaimed, [join(EXCERPT, 'README.md')]);
  for (const job of ['host_straggler', 'healthy']) {
    const own = batches.filter(({ meta }) => meta.job === job);
    assert.deepEqual(own[0]?.meta.groups, { tp: [0, 1] });
    let rows = 0;
    const gaps = new Map<string, number>();
    for (const { columns, length } of own) {
      for (let i = 0; i < length; i++) {
        assert.ok(columns.step.number(i) >= 150 && columns.step.number(i) <= 330);
        if (columns.kind[i] !== KIND.host) continue;
        const key = `rank ${columns.rank[i]} ${columns.step.number(i) < 250 ? 'before' : 'since'}`;
        gaps.set(key, Math.max(gaps.get(key) ?? 0, columns.dur_ns.number(i)));
      }
      rows += length;
    }
    assert.equal(rows, 181 * 2 * 66);
    if (job === 'host_straggler') assert.ok((gaps.get('rank 0 since') as number) > 4e6);
    assert.ok((gaps.get('rank 0 before') as number) < 4e6);
  }
});

test('the same paths give the same messages', async () => {
  const [first, second] = [await importAll(EXCERPT), await importAll(EXCERPT)];
  assert.deepEqual(first.batches, second.batches);
  assert.ok(first.batches.every(({ length }) => length <= MAX_MESSAGE_ROWS));
});

test('progress ends at the bytes on disk', async () => {
  const seen: [number, number][] = [];
  for await (const _ of importPaths([EXCERPT], { onProgress: (...progress) => seen.push(progress) }));
  const { size } = statSync(join(EXCERPT, 'phases.jsonl.gz'));
  assert.deepEqual(seen.at(-1), [size, size]);
});

test('an import that is left early closes its files', async () => {
  for await (const batch of importPaths([EXCERPT])) {
    assert.equal(batch.meta.job, 'host_straggler');
    break;
  }
});

test('a path that does not exist, and a folder without anything to import, are refused', async (t) => {
  const folder = folderOf(t, { 'notes.txt': 'x', 'sub/.hidden.jsonl': line });
  await assert.rejects(importAll(join(folder, 'none')), { code: 'not_found', message: /none: no such file or folder/ });
  await assert.rejects(importAll(folder), {
    code: 'bad_input',
    message: /nothing to import among 1 files; supported: JSONL/,
  });
});

test('a file that nobody reads is refused with what is supported', async (t) => {
  const folder = folderOf(t, { 'notes.txt': 'hello' });
  await assert.rejects(importAll(join(folder, 'notes.txt')), {
    code: 'bad_input',
    message: /notes.txt at byte 0: begins with "hello", which no importer reads; supported: JSONL rows/,
  });
});

test('a path given twice is read once', async (t) => {
  const folder = folderOf(t, { 'a.jsonl': line });
  assert.equal((await importAll([folder, join(folder, 'a.jsonl')])).report.rows, 1);
});

test('folders within folders are read', async (t) => {
  const folder = folderOf(t, { 'x/a.jsonl': line, 'x/y/b.jsonl': line.replace('"rank":0', '"rank":1') });
  assert.deepEqual(
    (await importAll(folder)).rows.map(({ rank }) => rank),
    [0, 1],
  );
});
