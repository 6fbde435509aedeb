import { randomUUID } from 'node:crypto';
import { Kafka } from 'kafkajs';
import type { BusRecord, ConsumerHandler, TopicPartition } from '../../bus/bus.js';
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

const WATCH_MS = 500;

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
  const reading = new Reading(await slicesOf(options, range), take);
  const group = `picket-backtest-${randomUUID()}`;
  const bus = KafkaBus.open(options);
  let watch: NodeJS.Timeout | undefined;
  try {
    if (reading.isDone) return reading;
    const consumer = await bus.consumer(group, [TOPICS.phases]);
    const failed = new Promise<never>((_, reject) => {
      watch = setInterval(() => {
        const error = consumer.health().failed;
        if (error) reject(error);
      }, WATCH_MS);
    });
    await Promise.race([consumer.start(reading).then(() => reading.done), failed]);
    return reading;
  } finally {
    clearInterval(watch);
    await bus.close();
    await withAdmin(options, (admin) => admin.deleteGroups([group])).catch(() => {});
  }
}

/** Takes in the messages of each partition's slice, and is done after the last of all. */
class Reading implements ConsumerHandler {
  unreadable = 0;
  readonly done: Promise<void>;
  readonly #slices: ReadonlyMap<number, Slice>;
  readonly #open: Set<number>;
  readonly #take: (batch: PhaseBatch) => void;
  #finish: () => void = () => {};

  constructor(slices: ReadonlyMap<number, Slice>, take: (batch: PhaseBatch) => void) {
    this.#slices = slices;
    this.#take = take;
    this.#open = new Set([...slices].filter(([, { start, end }]) => start < end).map(([partition]) => partition));
    this.done = new Promise((resolve) => {
      this.#finish = resolve;
    });
  }

  get isDone(): boolean {
    return this.#open.size === 0;
  }

  async assigned({ partition }: TopicPartition): Promise<bigint | undefined> {
    return this.#slices.get(partition)?.start;
  }

  async revoked(): Promise<void> {}

  async records({ partition }: TopicPartition, records: readonly BusRecord[]): Promise<void> {
    const end = this.#slices.get(partition)?.end ?? 0n;
    for (const { offset, value } of records) {
      if (offset >= end || !this.#open.has(partition)) break;
      const batch = decoded(value);
      if (batch) this.#take(batch);
      else this.unreadable++;
    }
    if ((records.at(-1)?.offset ?? -1n) < end - 1n) return;
    this.#open.delete(partition);
    if (this.isDone) this.#finish();
  }
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
