import { type Admin, Kafka } from 'kafkajs';
import { MAX_MESSAGE_BYTES } from '../../protocol/limits.js';
import type { Bus, Consumer, Producer, TopicSpec } from '../bus.js';
import type { BusLog } from '../log.js';
import { partitionOf } from '../partition.js';
import { KafkaConsumer } from './consumer.js';
import { busError } from './errors.js';
import { clientConfig, type KafkaOptions } from './options.js';
import { KafkaProducer } from './producer.js';

/** Apache Kafka through kafkajs. Every error of use names the brokers. */
export class KafkaBus implements Bus {
  readonly #options: KafkaOptions;
  readonly #log: BusLog;
  readonly #open = new Set<Producer | Consumer>();

  private constructor(options: KafkaOptions) {
    this.#options = options;
    this.#log = options.log ?? (() => {});
  }

  /** Checks the configuration and connects to nothing yet. */
  static open(options: KafkaOptions): KafkaBus {
    const bus = new KafkaBus(options);
    bus.#client();
    return bus;
  }

  async createTopics(topics: readonly TopicSpec[]): Promise<void> {
    const admin = this.#client().admin();
    try {
      await admin.connect();
      await admin.createTopics({ topics: topics.map((topic) => this.#topicConfig(topic)), timeout: 30_000 });
    } catch (error) {
      throw busError(error, this.#options.brokers);
    } finally {
      await disconnect(admin);
    }
  }

  async producer(): Promise<Producer> {
    const client = this.#client().producer({
      allowAutoTopicCreation: false,
      createPartitioner: () => (args) => partitionOf(String(args.message.key), args.partitionMetadata.length),
    });
    try {
      await client.connect();
    } catch (error) {
      throw busError(error, this.#options.brokers);
    }
    const producer = new KafkaProducer(client, this.#options.brokers);
    this.#open.add(producer);
    return producer;
  }

  async consumer(group: string, topics: readonly string[]): Promise<Consumer> {
    const consumer = new KafkaConsumer(group, topics, this.#options, this.#log);
    this.#open.add(consumer);
    return consumer;
  }

  async close(): Promise<void> {
    const open = [...this.#open];
    this.#open.clear();
    await Promise.all(open.map((each) => each.close()));
  }

  #client(): Kafka {
    return new Kafka(clientConfig(this.#options, this.#log, () => {}));
  }

  #topicConfig({ topic, partitions }: TopicSpec) {
    return {
      topic,
      numPartitions: partitions,
      replicationFactor: this.#options.replicationFactor ?? -1,
      configEntries: [{ name: 'max.message.bytes', value: String(MAX_MESSAGE_BYTES) }],
    };
  }
}

async function disconnect(admin: Admin): Promise<void> {
  await admin.disconnect().catch(() => {});
}

export type { KafkaOptions } from './options.js';
