import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import fc from 'fast-check';
import type { BusRecord } from '../../../bus/bus.js';
import { encodeFrame } from '../../../bus/embedded/frame.js';
import { PartitionReader } from '../../../bus/embedded/partition-reader.js';
import { PartitionWriter, type WriterOptions } from '../../../bus/embedded/partition-writer.js';
import { endOffset, segmentBases, segmentPath } from '../../../bus/embedded/segments.js';
import { textOf } from '../recorder.js';

function partition(t: TestContext) {
  const dir = mkdtempSync(join(tmpdir(), 'picket-partition-'));
  const logged: string[] = [];
  const log: WriterOptions['log'] = (_, message) => logged.push(message);
  const open: { close(): Promise<void> }[] = [];
  t.after(async () => {
    for (const each of open) await each.close();
    rmSync(dir, { recursive: true, force: true });
  });
  return {
    dir,
    logged,
    writer: (options: Partial<WriterOptions> = {}) => {
      const writer = new PartitionWriter(dir, {
        fsync: 'never',
        segmentBytes: 1e6,
        retentionBytes: 1e9,
        log,
        ...options,
      });
      open.push(writer);
      return writer;
    },
    reader: (from = 0n) => {
      const reader = new PartitionReader(dir, from, log);
      open.push(reader);
      return reader;
    },
  };
}

const messages = (...texts: string[]) => texts.map((text) => ({ key: 'k', value: Buffer.from(text) }));

async function readAll(reader: PartitionReader): Promise<BusRecord[]> {
  const all: BusRecord[] = [];
  for (let records = await reader.read(); records.length > 0; records = await reader.read()) all.push(...records);
  return all;
}

const textsOf = async (reader: PartitionReader): Promise<string[]> => (await readAll(reader)).map(textOf);

const sizeOf = (text: string): number => encodeFrame({ key: 'k', value: Buffer.from(text) }, 0n, 0).length;

test('a log cut at any byte, with anything behind the cut, loses only what was not whole', async (t) => {
  const { dir, writer, reader } = partition(t);
  const texts = ['first', 'second', 'third'];
  await writer().append(messages(...texts));
  const file = segmentPath(dir, 0n);
  const whole = readFileSync(file);
  const ends = texts.map((_, i) => texts.slice(0, i + 1).reduce((sum, text) => sum + sizeOf(text), 0));
  assert.equal(ends.at(-1), whole.length);
  const cuts = fc.asyncProperty(fc.nat(whole.length), fc.uint8Array({ maxLength: 80 }), async (cut, garbage) => {
    const written = Buffer.concat([whole.subarray(0, cut), garbage]);
    writeFileSync(file, written);
    await writer().append(messages('after'));
    // What comes behind the cut may be just what was cut.
    const kept = texts.filter((_, i) => written.subarray(0, ends[i]).equals(whole.subarray(0, ends[i])));
    assert.deepEqual(await textsOf(reader()), [...kept, 'after']);
    assert.equal(await endOffset(dir), BigInt(kept.length + 1));
  });
  await fc.assert(cuts, { numRuns: 200, examples: [[whole.length - 1, whole.subarray(-1)]] });
});

test('a writer goes on behind what another wrote meanwhile, in the same segment and in the next', async (t) => {
  const { dir, writer, reader } = partition(t);
  const [a, b] = [writer({ segmentBytes: 150 }), writer({ segmentBytes: 150 })];
  for (let i = 0; i < 20; i += 4) {
    await a.append(messages(`${i}`, `${i + 1}`));
    await b.append(messages(`${i + 2}`));
    await b.append(messages(`${i + 3}`));
  }
  const records = await readAll(reader());
  assert.deepEqual(
    records.map(textOf),
    Array.from({ length: 20 }, (_, i) => `${i}`),
  );
  assert.deepEqual(
    records.map(({ offset }) => offset),
    records.map((_, i) => BigInt(i)),
  );
  assert.ok((await segmentBases(dir)).length > 3);
});

test('what a dead writer left unfinished is cut off by one that lives on, and told of', async (t) => {
  const { dir, writer, reader, logged } = partition(t);
  const survivor = writer();
  await survivor.append(messages('first'));
  appendFileSync(segmentPath(dir, 0n), encodeFrame({ key: 'k', value: Buffer.from('torn') }, 1n, 0).subarray(0, 20));
  assert.deepEqual(await textsOf(reader()), ['first']);
  await survivor.append(messages('second'));
  assert.deepEqual(await textsOf(reader()), ['first', 'second']);
  assert.deepEqual(logged, [
    `${segmentPath(dir, 0n)}: cut off 20 bytes of an unfinished write at byte ${sizeOf('first')}`,
  ]);
});

test('a record that is still being written is neither delivered nor taken for damage', async (t) => {
  const { dir, writer, reader } = partition(t);
  await writer().append(messages('first'));
  const frame = encodeFrame({ key: 'k', value: Buffer.from('second') }, 1n, 0);
  const tail = reader();
  assert.deepEqual(await textsOf(tail), ['first']);
  for (let i = 0; i < frame.length; i++) {
    assert.deepEqual(await tail.read(), []);
    appendFileSync(segmentPath(dir, 0n), frame.subarray(i, i + 1));
  }
  assert.deepEqual(await textsOf(tail), ['second']);
  assert.equal(tail.resets, 0);
});

test('retention takes the oldest segments as a whole and stops at the size', async (t) => {
  const { dir, writer, reader } = partition(t);
  const bounded = writer({ segmentBytes: 1000, retentionBytes: 5000 });
  for (let i = 0; i < 200; i++) await bounded.append(messages(`${i}`.padStart(60)));
  const bases = await segmentBases(dir);
  const bytes = bases.reduce((sum, base) => sum + statSync(segmentPath(dir, base)).size, 0);
  assert.ok(bytes <= 6100 && bytes > 4000, `${bytes} bytes are left`);
  const kept = await readAll(reader(bases[0]));
  assert.deepEqual(
    kept.map(({ offset }) => offset),
    kept.map((_, i) => 200n - BigInt(kept.length) + BigInt(i)),
  );
  assert.equal(kept[0]?.offset, bases[0]);
});

test('a reader follows through segments that retention takes while it reads them', async (t) => {
  const { writer, reader, logged } = partition(t);
  const bounded = writer({ segmentBytes: 500, retentionBytes: 1500 });
  const slow = reader();
  const seen: number[] = [];
  for (let i = 0; i < 300; i++) {
    await bounded.append(messages(`${i}`.padStart(60)));
    if (i % 40 === 0) seen.push(...(await slow.read()).map(({ offset }) => Number(offset)));
  }
  seen.push(...(await readAll(slow)).map(({ offset }) => Number(offset)));
  assert.deepEqual(
    seen,
    [...new Set(seen)].sort((a, b) => a - b),
    'forwards, nothing twice',
  );
  assert.equal(seen.at(-1), 299);
  const gaps = seen.filter((offset, i) => i > 0 && offset !== (seen[i - 1] as number) + 1).length;
  assert.ok(gaps > 0);
  assert.equal(slow.resets, gaps);
  assert.match(logged.join('\n'), /offset \d+ is not in the log; reading goes on at \d+/);
});

test('a damaged record costs the rest of its segment, which is counted and told, and no more', async (t) => {
  const { dir, writer, reader, logged } = partition(t);
  const segmented = writer({ segmentBytes: 3 * sizeOf('00') });
  for (let i = 10; i < 19; i++) await segmented.append(messages(`${i}`));
  const file = segmentPath(dir, 3n);
  const bytes = readFileSync(file);
  bytes[sizeOf('00') + 30] = (bytes[sizeOf('00') + 30] as number) ^ 1;
  writeFileSync(file, bytes);
  const damaged = reader();
  assert.deepEqual(await textsOf(damaged), ['10', '11', '12', '13', '16', '17', '18']);
  assert.equal(damaged.resets, 1);
  assert.equal(logged[0], `${file}: damaged at byte ${sizeOf('00')}; reading goes on in the next file`);
});

test('records beyond a mebibyte are read one by one, small ones many at once', async (t) => {
  const { writer, reader } = partition(t);
  const large = 'x'.repeat(3_000_000);
  await writer({ segmentBytes: 1e8 }).append(messages(large, 'a', 'b', large, 'c'));
  const reading = reader();
  const lengths: number[][] = [];
  for (let records = await reading.read(); records.length > 0; records = await reading.read())
    lengths.push(records.map(({ value }) => value.byteLength));
  assert.deepEqual(lengths, [[3_000_000], [1, 1], [3_000_000], [1]]);
});

test('a log removed under its writer is no place to acknowledge messages from', async (t) => {
  const { dir, writer } = partition(t);
  const homeless = writer();
  await homeless.append(messages('first'));
  rmSync(dir, { recursive: true });
  await assert.rejects(homeless.append(messages('second')), (error: Error) => {
    assert.match(error.message, /picket-partition-.*the log cannot be written: .*check the disk/);
    return (error as { code?: string }).code === 'bus_unavailable';
  });
});

test('a segment that was removed and made anew by others is read from its start', async (t) => {
  const { dir, writer, reader } = partition(t);
  const first = writer();
  await first.append(messages('first', 'second'));
  rmSync(segmentPath(dir, 0n));
  const second = writer();
  await second.append(messages('new'));
  await first.append(messages('newer'));
  await second.append(messages('newest'));
  const records = await readAll(reader());
  assert.deepEqual(records.map(textOf), ['new', 'newer', 'newest']);
  assert.deepEqual(
    records.map(({ offset }) => offset),
    [0n, 1n, 2n],
  );
});

test('the end of a log is not known while its last record is half written', async (t) => {
  const { dir, writer } = partition(t);
  assert.equal(await endOffset(dir), 0n);
  await writer().append(messages('first', 'second'));
  assert.equal(await endOffset(dir), 2n);
  truncateSync(segmentPath(dir, 0n), statSync(segmentPath(dir, 0n)).size - 3);
  assert.equal(await endOffset(dir), undefined);
});
