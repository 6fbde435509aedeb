import { mkdtempSync, rmSync } from 'node:fs';
import { LAYOUT, openSegment } from '../../native/ts/index.js';
import { make } from '../../test/native/build.js';
import { Writer } from '../../test/native/writer.js';
import { print } from '../measure.js';

const RECORDS = 1 << 18;
const BATCH = 8192;
const ROUNDS = 15;

/** Fence records a second that the addon drains into typed arrays, against a plain copy of the same bytes, by turns. */
export async function benchDrain(): Promise<void> {
  make('addon', 'tests');
  const directory = mkdtempSync('/dev/shm/picket-bench-');
  const writer = await Writer.start(directory, RECORDS);
  const segment = openSegment(writer.path, true);
  const times = new BigUint64Array(BATCH);
  const ids = new Uint32Array(BATCH);
  const bytes = RECORDS * LAYOUT.fence.size;
  const from = new Uint8Array(bytes).fill(1);
  const to = new Uint8Array(bytes);
  const seconds = { drain: Number.POSITIVE_INFINITY, copy: Number.POSITIVE_INFINITY };
  const timed = (name: keyof typeof seconds, run: () => void) => {
    const started = performance.now();
    run();
    seconds[name] = Math.min(seconds[name], (performance.now() - started) / 1000);
  };
  try {
    for (let round = 0; round < ROUNDS; round++) {
      await writer.send(`fill ${RECORDS}`);
      let drained = 0;
      timed('drain', () => {
        for (let count = BATCH; count > 0; drained += count) count = segment.drainFences(times, ids).count;
      });
      if (drained !== RECORDS) throw new Error(`drained ${drained} of ${RECORDS} records`);
      timed('copy', () => to.set(from));
    }
  } finally {
    segment.close();
    await writer.kill();
    rmSync(directory, { recursive: true });
  }
  print({
    figure: 'fence_drain',
    records: RECORDS,
    records_per_second: Math.round(RECORDS / seconds.drain),
    copy_records_per_second: Math.round(RECORDS / seconds.copy),
    ratio_to_copy: Number((seconds.copy / seconds.drain).toFixed(3)),
  });
}
