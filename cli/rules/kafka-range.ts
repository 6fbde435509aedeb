import { randomUUID } from 'node:crypto';
import { Kafka } from 'kafkajs';
import { KafkaBus, type KafkaOptions } from '../../bus/kafka/kafka-bus.js';
import { clientConfig } from '../../bus/kafka/options.js';
import { decodePhases } from '../../protocol/arrow.js';
import { PicketError } from '../../protocol/errors.js';
import type { PhaseBatch } from '../../protocol/phase-batch.js';
import { TOPICS } from '../../protocol/topics.js';

export interface KafkaRange {
  readonly brokers: readonly string[];
  /** Epoch milliseconds at which messages were published; undefined: from the oldest, to the newest. */
  readonly sinceMs: number | undefined;
  readonly untilMs: number | undefined;
}

interface Slice {
  readonly start: bigint;
  readonly end: bigint;
}

/** Reads the phase rows of a time range, partition by partition in order; commits nothing. Gives what could not be read. */
export async function readKafkaRange(
  range: KafkaRange,
  take: (batch: PhaseBatch) => void,
): Promise<{ unreadable: number }> {
  const options: KafkaOptions = { brokers: range.brokers };
  const slices = await slicesOf(options, range);
  const open = new Set([...slices].filter(([, { start, end }]) => start < end).map(([partition]) => partition));
  if (open.size === 0) return { unreadable: 0 };
  const group = `picket-backtest-${randomUUID()}`;
  const bus = KafkaBus.open(options);
  let unreadable = 0;
  try {
    await new Promise<void>((resolve, reject) => {
      const finish = (partition: number): void => {
        open.delete(partition);
        if (open.size === 0) resolve();
      };
      const handler = {
        assigned: async ({ partition }: { partition: number }) => slices.get(partition)?.start,
        revoked: async () => {},
        records: async (
          { partition }: { partition: number },
          records: readonly { offset: bigint; value: Uint8Array }[],
        ) => {
          const end = slices.get(partition)?.end ?? 0n;
          for (const { offset, value } of records) {
            if (offset >= end || !open.has(partition)) break;
            const batch = decoded(value);
            if (batch) take(batch);
            else unreadable++;
          }
          if ((records.at(-1)?.offset ?? 0n) >= end - 1n) finish(partition);
        },
      };
      bus
        .consumer(group, [TOPICS.phases])
        .then((consumer) => consumer.start(handler))
        .catch(reject);
    });
  } finally {
    await bus.close();
    await withAdmin(options, (admin) => admin.deleteGroups([group])).catch(() => {});
  }
  return { unreadable };
}

function decoded(value: Uint8Array): PhaseBatch | undefined {
  try {
    return decodePhases(value);
  } catch (error) {
    if (error instanceof PicketError) return undefined;
    throw error;
  }
}

/** Offsets of the range by partition. */
async function slicesOf(options: KafkaOptions, { sinceMs, untilMs }: KafkaRange): Promise<Map<number, Slice>> {
  return withAdmin(options, async (admin) => {
    const all = await admin.fetchTopicOffsets(TOPICS.phases);
    const at = async (ms: number | undefined): Promise<Map<number, string>> =>
      new Map(
        ms === undefined
          ? []
          : (await admin.fetchTopicOffsetsByTimestamp(TOPICS.phases, ms)).map(({ partition, offset }) => [
              partition,
              offset,
            ]),
      );
    const [starts, ends] = [await at(sinceMs), await at(untilMs)];
    // -1: no message that late.
    const chosen = (offset: string | undefined, fallback: bigint, none: bigint): bigint =>
      offset === undefined ? fallback : offset === '-1' ? none : BigInt(offset);
    return new Map(
      all.map(({ partition, low, high }) => [
        partition,
        {
          start: chosen(starts.get(partition), BigInt(low), BigInt(high)),
          end: chosen(ends.get(partition), BigInt(high), BigInt(high)),
        },
      ]),
    );
  });
}

async function withAdmin<T>(options: KafkaOptions, use: (admin: ReturnType<Kafka['admin']>) => Promise<T>): Promise<T> {
  const admin = new Kafka(
    clientConfig(
      options,
      () => {},
      () => {},
    ),
  ).admin();
  try {
    await admin.connect();
    return await use(admin);
  } catch (cause) {
    if (cause instanceof PicketError) throw cause;
    throw new PicketError(
      'bus_unavailable',
      `Kafka at ${options.brokers.join(', ')}: ${(cause as Error).message}`,
      {},
      { cause },
    );
  } finally {
    await admin.disconnect().catch(() => {});
  }
}
