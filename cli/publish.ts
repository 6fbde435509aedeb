import type { Producer } from '../bus/bus.js';
import { encodePhases } from '../protocol/arrow.js';
import { MAX_MESSAGE_ROWS } from '../protocol/limits.js';
import type { PhaseBatch } from '../protocol/phase-batch.js';
import type { SampleRow } from '../protocol/sample.js';
import { encodeSamples } from '../protocol/sample-message.js';
import { TOPICS } from '../protocol/topics.js';

export interface Published {
  messages: number;
  rows: number;
  samples: number;
  bytes: number;
}

/** Phase rows of a message, or samples of one. */
export type Publishable = PhaseBatch | readonly SampleRow[];

/**
 * Publishes batches as collectors would: one message each, keyed by job. With a speed, at the pace of their own start
 * times times that (1: as it was); without, as fast as the bus takes them. Samples go out as they come.
 */
export async function publish(
  producer: Producer,
  batches: AsyncIterable<Publishable> | Iterable<Publishable>,
  speed: number | undefined,
): Promise<Published> {
  const published: Published = { messages: 0, rows: 0, samples: 0, bytes: 0 };
  const started = performance.now();
  let first: bigint | undefined;
  for await (const batch of batches) {
    if (isSamples(batch)) {
      await publishSamples(producer, batch, published);
      continue;
    }
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

const isSamples = (batch: Publishable): batch is readonly SampleRow[] => Array.isArray(batch);

async function publishSamples(producer: Producer, samples: readonly SampleRow[], published: Published): Promise<void> {
  const byJob = new Map<string, SampleRow[]>();
  for (const sample of samples) {
    const job = sample.job ?? '';
    const own = byJob.get(job);
    if (own) own.push(sample);
    else byJob.set(job, [sample]);
  }
  for (const [key, own] of byJob)
    for (let from = 0; from < own.length; from += MAX_MESSAGE_ROWS) {
      const value = encodeSamples(own.slice(from, from + MAX_MESSAGE_ROWS));
      await producer.send(TOPICS.samples, [{ key, value }]);
      published.messages++;
      published.bytes += value.length;
    }
  published.samples += samples.length;
}

async function until(atMs: number): Promise<void> {
  const wait = atMs - performance.now();
  if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
}
