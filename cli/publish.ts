import type { Producer } from '../bus/bus.js';
import { encodePhases } from '../protocol/arrow.js';
import type { PhaseBatch } from '../protocol/phase-batch.js';
import { TOPICS } from '../protocol/topics.js';

export interface Published {
  messages: number;
  rows: number;
  bytes: number;
}

/**
 * Publishes batches as collectors would: one message each, keyed by job. With a speed, at the pace of their own start
 * times times that (1: as it was); without, as fast as the bus takes them.
 */
export async function publish(
  producer: Producer,
  batches: AsyncIterable<PhaseBatch> | Iterable<PhaseBatch>,
  speed: number | undefined,
): Promise<Published> {
  const published: Published = { messages: 0, rows: 0, bytes: 0 };
  const started = performance.now();
  let first: bigint | undefined;
  for await (const batch of batches) {
    if (batch.length === 0) continue;
    const start = batch.columns.start_ns.bigint(0);
    first ??= start;
    if (speed !== undefined) await until(started + Number(start - first) / 1e6 / speed);
    const value = encodePhases(batch);
    await producer.send(TOPICS.phases, [{ key: batch.meta.job, value }]);
    published.messages++;
    published.rows += batch.length;
    published.bytes += value.length;
  }
  return published;
}

async function until(atMs: number): Promise<void> {
  const wait = atMs - performance.now();
  if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
}
