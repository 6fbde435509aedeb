import assert from 'node:assert/strict';
import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { test } from 'node:test';
import { folderOf, importAll } from './import.js';

const EVENT_BYTES = 200;
const EVENTS_A_STEP = 1000;

/** A trace of kernels, one microsecond apart, 1,000 a step, each event of 200 bytes. */
function* traceOf(events: number): Generator<string> {
  yield '{"distributedInfo":{"rank":0},"traceEvents":[\n';
  let chunk = '';
  for (let i = 0; i < events; i++) {
    const [step, inStep] = [Math.floor(i / EVENTS_A_STEP), i % EVENTS_A_STEP];
    if (inStep === 0)
      chunk += `{"ph":"X","cat":"user_annotation","name":"ProfilerStep#${step}","pid":1,"tid":1,"ts":${i + 1},"dur":${EVENTS_A_STEP}},\n`;
    const event = `{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":${i + 1},"dur":0.25,"args":{"x":"`;
    chunk += `${event.padEnd(EVENT_BYTES - 5, 'y')}"}}${i === events - 1 ? '' : ','}\n`;
    if (chunk.length < 1e6) continue;
    yield chunk;
    chunk = '';
  }
  yield `${chunk}]}`;
}

/** Imports a generated trace; returns by how much memory grew at its peak. */
async function importLarge(t: Parameters<typeof folderOf>[0], events: number): Promise<number> {
  const path = join(folderOf(t, {}), 'large.json');
  await pipeline(Readable.from(traceOf(events)), createWriteStream(path));
  const before = process.memoryUsage().rss;
  let peak = before;
  const onProgress = () => {
    peak = Math.max(peak, process.memoryUsage().rss);
  };
  const { rows, report } = await importAll(path, { onProgress });
  assert.equal(report.dropped.size, 0);
  assert.equal(rows.length, (2 * events) / EVENTS_A_STEP);
  const computing = rows.filter(({ phase }) => phase === 'compute');
  assert.ok(
    computing.every(({ count, busy_ns }) => count === EVENTS_A_STEP && busy_ns === 250n * BigInt(EVENTS_A_STEP)),
  );
  return peak - before;
}

test('a trace is imported in less memory than it has bytes', async (t) => {
  const events = 500_000;
  const grown = await importLarge(t, events);
  assert.ok(grown < events * EVENT_BYTES, `grew by ${grown} bytes`);
});

const slow = process.env.PICKET_SLOW === '1' ? false : 'needs PICKET_SLOW=1: writes and reads 600 MB';

test('a trace beyond the longest string of JavaScript is imported in half its bytes', { skip: slow }, async (t) => {
  const events = 3_000_000;
  const grown = await importLarge(t, events);
  assert.ok(grown < (events * EVENT_BYTES) / 2, `grew by ${grown} bytes`);
});
