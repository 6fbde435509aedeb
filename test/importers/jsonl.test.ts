import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { decodePhases, encodePhases } from '../../protocol/arrow.js';
import { MAX_JSON_VALUE_BYTES, MAX_MESSAGE_ROWS, MAX_NAME_CHARS } from '../../protocol/limits.js';
import { droppedOf, folderOf, importAll, importFile } from './import.js';

const T0 = 1770000000000000000n;

/** A line with what a row needs, changed as given. */
const line = (fields: object = {}) =>
  JSON.stringify({ job: 'j', rank: 0, step: 0, phase: 'fwd', start_ns: String(T0), dur_ns: 50, ...fields });

test('records without timing are dropped, the windows do not begin in 1970', async (t) => {
  const good = [0, 1, 2].flatMap((rank) =>
    Array.from({ length: 100 }, (_, step) => line({ rank, step, start_ns: String(T0 + BigInt(step)) })),
  );
  const zero = (dur_ns: number) => line({ rank: 2, start_ns: 0, dur_ns });
  const bad = [...Array.from({ length: 10 }, () => zero(0)), ...Array.from({ length: 3 }, () => zero(40))];
  const imported = await importFile(t, 'a.jsonl', [...good, ...bad].join('\n'));
  assert.deepEqual(droppedOf(imported), { start_zero: 13 });
  assert.equal(imported.report.dropped.get('start_zero')?.first.line, 301);
  assert.equal(imported.report.rows, 300);
  assert.ok(imported.rows.every(({ start_ns }) => start_ns >= T0));
});

test('one --job for a file with several jobs is refused at the line where the second begins', async (t) => {
  const lines = [line({ job: 'a' }), line({ job: 'b' })].join('\n');
  await assert.rejects(importFile(t, 'a.jsonl', lines, { job: 'x' }), {
    code: 'conflict',
    message: /a\.jsonl:2: field "job": a second job, "b" beside "a"/,
  });
});

test('a good start with a duration of 0 is kept', async (t) => {
  const { rows, report } = await importFile(t, 'a.jsonl', line({ phase: 'gc', dur_ns: 0 }));
  assert.deepEqual([rows[0]?.dur_ns, report.dropped.size], [0n, 0]);
});

test('durations of centuries, starts beyond 64 bits and what overflows are dropped by reason, a long checkpoint is kept', async (t) => {
  const lines = [
    line({ dur_ns: '7447334400000000000' }),
    line({ start_ns: '9223372036854775808' }),
    line({ dur_ns: '1e400' }),
    line({ phase: 'ckpt', dur_ns: 40 * 60 * 1e9 }),
  ];
  const imported = await importFile(t, 'a.jsonl', lines.join('\n'));
  assert.deepEqual(droppedOf(imported), { duration_too_long: 1, start_out_of_range: 1, invalid_value: 1 });
  assert.deepEqual(
    imported.rows.map(({ phase }) => phase),
    ['checkpoint'],
  );
});

test('values that are no numbers or below zero are counted, the others come through', async (t) => {
  const lines = [line({ tokens: -3 }), line({ dur_ns: null }), line({ dur_ns: 'NaN' }), line({ tokens: 3 })];
  const imported = await importFile(t, 'a.jsonl', lines.join('\n'));
  assert.deepEqual(droppedOf(imported), { invalid_value: 2, negative_value: 1 });
  assert.deepEqual(
    imported.rows.map(({ tokens }) => tokens),
    [3],
  );
});

test('nanoseconds pass from the file to a message and back exactly', async (t) => {
  const bare = line({ rank: 1 }).replace(/"start_ns":"\d+"/, '"start_ns":1770000000000000201');
  const { batches } = await importFile(t, 'a.jsonl', [line({ start_ns: '1770000000000000101' }), bare].join('\n'));
  const decoded = decodePhases(encodePhases(batches[0] as (typeof batches)[0]));
  assert.equal(decoded.columns.start_ns.bigint(1) - decoded.columns.start_ns.bigint(0), 100n);
});

test('names that are not text lose nothing but themselves', async (t) => {
  const [before = '', after = ''] = line({ phase: '@' }).split('@');
  const lines = [
    Buffer.concat([
      Buffer.from(before),
      Buffer.from([0x66, 0x77, 0x64, 0x9f, 0x22, 0x5c, 0x22].slice(0, 4)),
      Buffer.from(after),
    ]),
    Buffer.from(line({ phase: 'C:\\new\\x' })),
    Buffer.from(line({ phase: '\u0007' })),
    Buffer.from(line({ phase: 'k'.repeat(1956) })),
    Buffer.from(line({ phase: 'fwd\u202e' })),
  ];
  const { rows, report } = await importFile(t, 'a.jsonl', Buffer.concat(lines.flatMap((l) => [l, Buffer.from('\n')])));
  assert.deepEqual(
    rows.map(({ phase }) => phase),
    ['fwd\ufffd', 'C:\\new\\x', '\u0007', 'k'.repeat(MAX_NAME_CHARS), 'fwd\u202e'],
  );
  const repaired = Object.fromEntries(
    [...report.repaired].map(([reason, { count, first }]) => [reason, [count, first.line]]),
  );
  assert.deepEqual(repaired, { invalid_utf8: [1, 1], name_cut: [1, 4] });
});

test('an unescaped quote is an error with file and line', async (t) => {
  const lines = [line(), line().replace('"fwd"', '"{"device": "cpu"}(12): run"')];
  await assert.rejects(importFile(t, 'a.jsonl', lines.join('\n')), {
    code: 'bad_input',
    message: /a.jsonl:2: not JSON/,
  });
});

test('an unknown field is an error with file, line and field', async (t) => {
  const lines = `${line()}\n\n${line({ colour: 1 })}`;
  await assert.rejects(importFile(t, 'a.jsonl', lines), { message: /a.jsonl:3: field "colour": is unknown/ });
});

test('a line beyond the limit is an error with its number', async (t) => {
  const huge = Buffer.alloc(MAX_JSON_VALUE_BYTES + 2, 'x');
  const content = Buffer.concat([Buffer.from(`${line()}\n`), huge]);
  await assert.rejects(importFile(t, 'a.jsonl', content), {
    code: 'too_large',
    message: /a.jsonl:2: line exceeds \d+ bytes/,
  });
});

test('the job comes from the option, else the row, else the file name without its rank', async (t) => {
  const unnamed = line({ job: undefined });
  const jobs = async (name: string, options = {}) =>
    (await importFile(t, name, `${line()}\n${unnamed}`, options)).rows.map(({ job }) => job);
  assert.deepEqual(await jobs('run-7.rank3.jsonl'), ['j', 'run-7']);
  assert.deepEqual(await jobs('run-7.ndjson', { job: 'x' }), ['x', 'x']);
});

test('facts of the job reach the messages of its hosts', async (t) => {
  const lines = [
    line({ host: 'a', rank: 0, groups: { tp: [0, 1] }, model: '8B', stage: 2 }),
    line({ host: 'b', rank: 1, gpu: 'GPU-1' }),
  ];
  const { batches } = await importFile(t, 'a.jsonl', lines.join('\n'));
  assert.deepEqual(
    batches.map(({ meta }) => meta),
    [
      { job: 'j', run: '1', host: 'a', model: '8B', groups: { tp: [0, 1] }, ranks: [{ rank: 0, stage: 2 }] },
      { job: 'j', run: '1', host: 'b', groups: { tp: [0, 1] }, ranks: [{ rank: 1, gpu: 'GPU-1' }] },
    ],
  );
});

test('samples come separately and are counted', async (t) => {
  const sample = JSON.stringify({ sample: { time_ns: '1770000000000000101', name: 'kv', value: 0.5 } });
  const { samples, report, rows } = await importFile(t, 'a.jsonl', `${sample}\n${line()}`);
  assert.deepEqual(
    samples.map(({ job, name, time_ns }) => [job, name, time_ns]),
    [['a', 'kv', 1770000000000000101n]],
  );
  assert.deepEqual([report.samples, rows.length], [1, 1]);
});

test('gzip, line ends of Windows and a byte order mark make no difference', async (t) => {
  const text = `${line()}\n${line({ step: 1 })}\n`;
  const { rows } = await importFile(t, 'a.jsonl', text);
  assert.equal(rows.length, 2);
  assert.deepEqual((await importFile(t, 'a.jsonl.gz', gzipSync(`\ufeff${text.replaceAll('\n', '\r\n')}`))).rows, rows);
});

test('files of one rank each are read side by side, and no rank runs ahead by more than a message', async (t) => {
  const steps = 2 * MAX_MESSAGE_ROWS;
  const files = [0, 1].map((rank) => [
    `a.rank${rank}.jsonl`,
    Array.from({ length: steps }, (_, step) => line({ rank, step })).join('\n'),
  ]);
  const { batches, report } = await importAll(folderOf(t, Object.fromEntries(files)), { windowRows: MAX_MESSAGE_ROWS });
  assert.equal(report.rows, 2 * steps);
  const reached = [-1, -1];
  for (const { columns, length } of batches) {
    assert.ok(length <= MAX_MESSAGE_ROWS);
    for (let i = 0; i < length; i++) {
      const rank = columns.rank[i] as number;
      assert.equal(columns.step.number(i), (reached[rank] as number) + 1);
      reached[rank] = columns.step.number(i);
    }
    assert.ok(Math.abs((reached[0] as number) - (reached[1] as number)) <= MAX_MESSAGE_ROWS);
  }
});

test('in a folder only JSONL of phases or samples is claimed', async (t) => {
  const folder = folderOf(t, { 'a.jsonl': `\n${line()}`, 'requests.jsonl': '{"timestamp":1}', 'notes.txt': 'x' });
  const { report } = await importAll(folder);
  assert.deepEqual(report.files, [{ path: join(folder, 'a.jsonl'), importer: 'jsonl', rows: 1 }]);
  assert.deepEqual(report.unclaimed, [join(folder, 'notes.txt'), join(folder, 'requests.jsonl')]);
});
