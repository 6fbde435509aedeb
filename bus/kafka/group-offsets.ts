import type { Admin } from 'kafkajs';
import type { TopicPartition } from '../bus.js';

export interface StartOffset {
  readonly start: bigint;
  /** One past the last record of the partition. */
  readonly end: bigint;
  /** The wanted offset is not in the log, so the start is the earliest that is. */
  readonly reset: boolean;
}

/** What the brokers know of offsets. Each call is a request and throws where it fails. */
export class GroupOffsets {
  readonly #admin: Admin;
  readonly #group: string;

  constructor(admin: Admin, group: string) {
    this.#admin = admin;
    this.#group = group;
  }

  /** Where to start: at the wanted offset, else the committed one, else the earliest. */
  async startOf(partition: TopicPartition, wanted: bigint | undefined): Promise<StartOffset> {
    const bounds = (await this.#admin.fetchTopicOffsets(partition.topic)).find(isFor(partition));
    if (!bounds) throw new Error(`topic ${partition.topic} has no partition ${partition.partition}`);
    const [earliest, end] = [BigInt(bounds.low), BigInt(bounds.high)];
    const start = wanted ?? (await this.#committed(partition)) ?? earliest;
    const reset = start < earliest || start > end;
    return { start: reset ? earliest : start, end, reset };
  }

  /** One past the last record of each partition of a topic. */
  async ends(topic: string): Promise<Map<number, bigint>> {
    const bounds = await this.#admin.fetchTopicOffsets(topic);
    return new Map(bounds.map(({ partition, high }) => [partition, BigInt(high)]));
  }

  async #committed(partition: TopicPartition): Promise<bigint | undefined> {
    const [topic] = await this.#admin.fetchOffsets({ groupId: this.#group, topics: [partition.topic] });
    const offset = BigInt(topic?.partitions.find(isFor(partition))?.offset ?? -1);
    return offset < 0n ? undefined : offset;
  }
}

const isFor =
  ({ partition }: TopicPartition) =>
  (each: { partition: number }): boolean =>
    each.partition === partition;
