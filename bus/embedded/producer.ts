import { join } from 'node:path';
import type { BusMessage, Producer } from '../bus.js';
import { checkSizes } from '../message.js';
import { partitionOf } from '../partition.js';
import { PartitionWriter, type WriterOptions } from './partition-writer.js';

export interface TopicFolder {
  readonly dir: string;
  readonly partitions: number;
}

export class EmbeddedProducer implements Producer {
  readonly #find: (topic: string) => TopicFolder;
  readonly #options: WriterOptions;
  readonly #topics = new Map<string, TopicFolder>();
  readonly #writers = new Map<string, PartitionWriter>();

  constructor(find: (topic: string) => TopicFolder, options: WriterOptions) {
    this.#find = find;
    this.#options = options;
  }

  // Nothing is awaited before the appends are queued: so sends that overlap keep their order.
  async send(topic: string, messages: readonly BusMessage[]): Promise<void> {
    checkSizes(topic, messages);
    const { dir, partitions } = this.#topics.get(topic) ?? this.#find(topic);
    this.#topics.set(topic, { dir, partitions });
    const shares = new Map<number, BusMessage[]>();
    for (const message of messages) {
      const partition = partitionOf(message.key, partitions);
      const share = shares.get(partition);
      if (share) share.push(message);
      else shares.set(partition, [message]);
    }
    const appends = [...shares].map(([partition, share]) => this.#writer(join(dir, String(partition))).append(share));
    await Promise.all(appends);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#writers.values()].map((writer) => writer.close()));
    this.#writers.clear();
  }

  #writer(dir: string): PartitionWriter {
    const writer = this.#writers.get(dir) ?? new PartitionWriter(dir, this.#options);
    this.#writers.set(dir, writer);
    return writer;
  }
}
