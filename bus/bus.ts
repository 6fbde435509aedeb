/** What Picket asks of a log: Kafka and the embedded log give the same. Both are at-least-once, ordered within a partition. */
export interface BusMessage {
  readonly key: string;
  readonly value: Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface BusRecord extends BusMessage {
  readonly offset: bigint;
}

export interface TopicPartition {
  readonly topic: string;
  readonly partition: number;
}

export interface TopicSpec {
  readonly topic: string;
  readonly partitions: number;
}

export interface Producer {
  /** Resolves when the log has the messages durably. Throws `too_large` for a message over the limit, never retries it. */
  send(topic: string, messages: readonly BusMessage[]): Promise<void>;
  close(): Promise<void>;
}

/** What a consumer is told. No two calls overlap for one partition. */
export interface ConsumerHandler {
  /** A partition has come: the offset to start from, or undefined for the committed one (else the earliest). */
  assigned(partition: TopicPartition): Promise<bigint | undefined>;
  /** A partition has gone: forget its state, write nothing more for it. */
  revoked(partition: TopicPartition): Promise<void>;
  /** Records in offset order. A throw is fatal for the consumer; bad messages are the handler's to dead-letter. */
  records(partition: TopicPartition, records: readonly BusRecord[]): Promise<void>;
}

export interface Consumer {
  /** Joins the group and delivers until `close`; resolves once joined. */
  start(handler: ConsumerHandler): Promise<void>;
  /**
   * Advisory commit of the next offset to read; the handler's own store is what counts. Does nothing for a partition that
   * has gone.
   */
  commit(partition: TopicPartition, nextOffset: bigint): Promise<void>;
  /** What readiness and metrics ask: is it alive, how far behind, when did it last fetch. */
  health(): ConsumerHealth;
  /** Waits for the handler call that runs and leaves the group; `revoked` is not called. */
  close(): Promise<void>;
}

export interface ConsumerHealth {
  readonly joined: boolean;
  /** Set once the consumer has stopped for good and the process must restart. */
  readonly failed: Error | undefined;
  /** Messages not yet delivered, by `topic/partition`. */
  readonly lag: ReadonlyMap<string, bigint>;
  /** Monotonic milliseconds of the last fetch, also of an empty one. */
  readonly lastFetchMs: number;
  readonly rebalances: number;
  /** Times the committed offset was gone from the log and reading began at the earliest. */
  readonly offsetResets: number;
}

export interface Bus {
  /** Creates what does not exist; never changes what does. */
  createTopics(topics: readonly TopicSpec[]): Promise<void>;
  producer(): Promise<Producer>;
  consumer(group: string, topics: readonly string[]): Promise<Consumer>;
  close(): Promise<void>;
}
