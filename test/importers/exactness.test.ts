import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { decodePhases, encodePhases } from '../../protocol/arrow.js';
import { MAX_DURATION_NS, MAX_START_NS } from '../../protocol/limits.js';
import { rowOf } from '../../protocol/phase-batch.js';
import { folderOf, importAll } from './import.js';

const times = fc
  .tuple(fc.bigInt({ min: 1n, max: MAX_START_NS }), fc.bigInt({ min: 0n, max: BigInt(MAX_DURATION_NS) }))
  .map(([start, dur]) => ({ start, dur }));
const microseconds = (ns: bigint) => `${ns / 1000n}.${String(ns % 1000n).padStart(3, '0')}`;

/** How each format writes the times of rows; the step tells them apart. */
const formats: Record<string, (rows: readonly { start: bigint; dur: bigint }[]) => string> = {
  'a.jsonl': (rows) =>
    rows
      .map(({ start, dur }, i) => `{"rank":0,"step":${i},"phase":"x","start_ns":${start},"dur_ns":"${dur}"}`)
      .join('\n'),
  'a.json': (rows) =>
    `[${rows.map(({ start, dur }, i) => `{"ph":"X","name":"x","ts":${microseconds(start)},"dur":${microseconds(dur)},"args":{"step":${i}}}`)}]`,
};

for (const [name, write] of Object.entries(formats))
  test(`times of ${name} are the same nanoseconds in the file, the message and the decoded row`, async (t) => {
    const path = join(folderOf(t, {}), name);
    await fc.assert(
      fc.asyncProperty(fc.array(times, { minLength: 1, maxLength: 40 }), async (rows) => {
        writeFileSync(path, write(rows));
        const { batches } = await importAll(path);
        const decoded = batches.flatMap((batch) => {
          const message = decodePhases(encodePhases(batch));
          return Array.from({ length: message.length }, (_, i) => rowOf(message, i));
        });
        assert.deepEqual(
          decoded.map(({ start_ns, dur_ns }) => ({ start: start_ns, dur: dur_ns })),
          rows,
        );
      }),
      { numRuns: 50 },
    );
  });
