import { setTimeout as sleep } from 'node:timers/promises';
import kafkajs, {
  type Admin,
  type ConsumerCrashEvent,
  type ConsumerGroupJoinEvent,
  type EachBatchPayload,
  type Consumer as KafkaJsConsumer,
  type PartitionAssigner,
} from 'kafkajs';
import { PicketError } from '../../protocol/errors.js';
import type { BusRecord, Consumer, ConsumerHandler, ConsumerHealth, TopicPartition } from '../bus.js';
import type { BusLog } from '../log.js';
import { byPartition } from './assigner.js';
import { type Assignment, Assignments, nameOf } from './assignments.js';
import { slicesOf } from './batch.js';
import { busError, isRebalance } from './errors.js';
import { GroupOffsets } from './group-offsets.js';
import { clientConfig, type KafkaOptions } from './options.js';

const { Kafka, KafkaJSNonRetriableError } = kafkajs;

const MAX_WAIT_MS = 200;
const LAG_CHECK_MS = 5000;
const JOIN_DEADLINE_MS = 60_000;
const JOIN_CHECK_MS = 20;
const COMMIT_WAIT_MS = 2000;
const OFFSETS_RETRY_MS = 1000;

/**
 * A member of a Kafka consumer group whose offsets are the handler's to keep: each partition is paused when it comes, the
 * handler asked where to start, and only then read. No two calls of the handler ever overlap.
 */
export class KafkaConsumer implements Consumer {
  readonly #group: string;
  readonly #topics: readonly string[];
  readonly #options: KafkaOptions;
  readonly #log: BusLog;
  readonly #consumer: KafkaJsConsumer;
  readonly #admin: Admin;
  readonly #offsets: GroupOffsets;
  readonly #heartbeatMs: number;
  readonly #assignments = new Assignments();
  #handler: ConsumerHandler | undefined;
  #calls: Promise<unknown> = Promise.resolve();
  #memberId: string | undefined;
  /** Times this member has asked to join since it last did. */
  #joinRequests = 0;
  /** A rebalance is known of and not yet joined: what was fetched before it may be another's by now. */
  #rejoining = false;
  #closing = false;
  #joined = false;
  #failed: Error | undefined;
  #lastFetchMs = performance.now();
  #joins = 0;
  #offsetResets = 0;
  #lagTimer: NodeJS.Timeout | undefined;

  constructor(group: string, topics: readonly string[], options: KafkaOptions, log: BusLog) {
    this.#group = group;
    this.#topics = topics;
    this.#options = options;
    this.#log = log;
    this.#heartbeatMs = options.heartbeatIntervalMs ?? 3000;
    const config = clientConfig(options, log, (topic, partition) => {
      const assignment = this.#assignments.get(topic, partition);
      if (assignment) assignment.reset = true;
    });
    // A client of its own: the client shares committed offsets between the consumers of one group that it makes.
    const client = new Kafka(config);
    this.#admin = client.admin();
    this.#offsets = new GroupOffsets(this.#admin, group);
    this.#consumer = client.consumer({
      groupId: group,
      allowAutoTopicCreation: false,
      maxWaitTimeInMs: MAX_WAIT_MS,
      sessionTimeout: options.sessionTimeoutMs ?? 30_000,
      rebalanceTimeout: options.rebalanceTimeoutMs ?? 60_000,
      heartbeatInterval: this.#heartbeatMs,
      partitionAssigners: [this.#countingAssigner()],
      retry: { ...config.retry, restartOnFailure: async () => !this.#closing },
    });
  }

  async start(handler: ConsumerHandler): Promise<void> {
    if (this.#handler) throw new PicketError('conflict', 'the consumer has already been started');
    this.#handler = handler;
    this.#listen();
    try {
      await this.#admin.connect();
      await this.#consumer.connect();
      await this.#consumer.subscribe({ topics: [...this.#topics], fromBeginning: true });
      await this.#consumer.run({
        autoCommit: false,
        eachBatchAutoResolve: false,
        eachBatch: (payload) => this.#eachBatch(payload),
      });
      await this.#firstJoin();
    } catch (error) {
      this.#failed ??= busError(error, this.#options.brokers, this.#topics);
      await this.close();
      throw this.#failed;
    }
    this.#lagTimer = setInterval(() => void this.#measureLag(), LAG_CHECK_MS).unref();
  }

  /** The client also tries again after errors that it calls crashes, as while the group's coordinator comes up. */
  async #firstJoin(): Promise<void> {
    const deadline = performance.now() + JOIN_DEADLINE_MS;
    while (this.#joins === 0 && !this.#failed && !this.#closing) {
      if (performance.now() > deadline) throw new Error(`the group ${this.#group} could not be joined in time`);
      await sleep(JOIN_CHECK_MS);
    }
    if (this.#failed) throw this.#failed;
  }

  async commit({ topic, partition }: TopicPartition, nextOffset: bigint): Promise<void> {
    if (!this.#assignments.get(topic, partition) || this.#rejoining) return;
    const offset = String(nextOffset);
    const commit = this.#consumer.commitOffsets([{ topic, partition, offset }]).catch((error: Error) => {
      this.#log('warn', `Kafka: offset ${offset} of ${topic}/${partition} is not committed: ${error.message}`);
    });
    // The client tries again for long, also where it is no member any more: meanwhile the group would wait for our batch.
    const enough = new AbortController();
    await Promise.race([commit, sleep(COMMIT_WAIT_MS, undefined, { signal: enough.signal }).catch(() => {})]);
    enough.abort();
  }

  health(): ConsumerHealth {
    const lagOf = ({ end, position }: Assignment) => (position > end ? 0n : end - position);
    return {
      joined: this.#joined,
      failed: this.#failed,
      lag: new Map(this.#assignments.all.map((assignment) => [nameOf(assignment.partition), lagOf(assignment)])),
      lastFetchMs: this.#lastFetchMs,
      rebalances: Math.max(0, this.#joins - 1),
      offsetResets: this.#offsetResets,
    };
  }

  async close(): Promise<void> {
    this.#closing = true;
    clearInterval(this.#lagTimer);
    await this.#consumer.disconnect().catch(() => {});
    this.#joined = false;
    await this.#calls;
    await this.#admin.disconnect().catch(() => {});
  }

  #listen(): void {
    const { GROUP_JOIN, FETCH, REBALANCING, CRASH } = this.#consumer.events;
    this.#consumer.on(GROUP_JOIN, (event) => this.#onJoin(event));
    this.#consumer.on(FETCH, () => {
      this.#lastFetchMs = performance.now();
    });
    this.#consumer.on(REBALANCING, () => {
      this.#joined = false;
    });
    this.#consumer.on(CRASH, (event) => this.#onCrash(event));
  }

  #onCrash({ payload: { error, restart } }: ConsumerCrashEvent): void {
    this.#joined = false;
    if (!restart) this.#failed ??= busError(error, this.#options.brokers, this.#topics);
  }

  /** Runs within the client's own join, before it can fetch anything: so nothing of a new partition gets past us. */
  #onJoin({ payload }: ConsumerGroupJoinEvent): void {
    if (this.#closing) return;
    const unbroken = payload.memberId === this.#memberId && this.#joinRequests <= 1;
    this.#memberId = payload.memberId;
    this.#joinRequests = 0;
    this.#rejoining = false;
    this.#joined = true;
    this.#joins++;
    const dealt = Object.entries(payload.memberAssignment).flatMap(([topic, partitions]) =>
      partitions.map((partition) => ({ topic, partition })),
    );
    const { gone, come, kept } = this.#assignments.replace(dealt, unbroken);
    this.#log('info', `Kafka: joined ${this.#group}; +${come.length} -${gone.length} =${kept.length} partitions`);
    // The client goes back to the committed offsets; we know better where we were.
    for (const { ready, partition, position } of kept)
      if (ready) this.#consumer.seek({ ...partition, offset: String(position) });
    for (const { ready, partition } of [...come, ...kept])
      if (!ready) this.#consumer.pause([{ topic: partition.topic, partitions: [partition.partition] }]);
    void this.#tell(gone, come);
  }

  async #tell(gone: readonly Assignment[], come: readonly Assignment[]): Promise<void> {
    try {
      for (const { told, partition } of gone) if (told) await this.#call((handler) => handler.revoked(partition));
      for (const assignment of come) await this.#begin(assignment);
    } catch (error) {
      this.#failed ??= error as Error;
      this.#joined = false;
      await this.#consumer.disconnect().catch(() => {});
    }
  }

  /** Asks the handler where to start, and lets reading begin there or, where the log no longer has it, at the earliest. */
  async #begin(assignment: Assignment): Promise<void> {
    const { partition } = assignment;
    const wanted = await this.#call((handler) => {
      assignment.told = this.#assignments.isCurrent(assignment);
      return assignment.told ? handler.assigned(partition) : Promise.resolve(undefined);
    });
    while (this.#assignments.isCurrent(assignment) && !this.#closing && !this.#failed) {
      try {
        const { start, end, reset } = await this.#offsets.startOf(partition, wanted);
        if (!this.#assignments.isCurrent(assignment)) return;
        if (reset) this.#offsetResets++;
        Object.assign(assignment, { ready: true, position: start, end });
        this.#consumer.seek({ ...partition, offset: String(start) });
        this.#consumer.resume([{ topic: partition.topic, partitions: [partition.partition] }]);
        return;
      } catch (error) {
        this.#log('warn', `Kafka: no offsets of ${nameOf(partition)} yet: ${(error as Error).message}`);
        await sleep(OFFSETS_RETRY_MS);
      }
    }
  }

  async #eachBatch(payload: EachBatchPayload): Promise<void> {
    const { batch, heartbeat } = payload;
    const assignment = this.#assignments.get(batch.topic, batch.partition);
    if (!assignment?.ready || payload.isStale()) return;
    assignment.end = BigInt(batch.highWatermark);
    if (assignment.reset) this.#settle(assignment, BigInt(batch.messages[0]?.offset ?? assignment.position));
    let lost: unknown;
    const beat = async (): Promise<void> => {
      try {
        await heartbeat();
      } catch (error) {
        lost ??= error;
        if (isRebalance(error)) this.#rejoining = true;
      }
    };
    // Also while a call lasts: a slow handler is no dead one.
    const timer = setInterval(() => void beat(), this.#heartbeatMs / 2);
    try {
      for (const slice of slicesOf(batch.messages, assignment.position)) {
        if (lost || !(await this.#deliver(assignment, slice, payload))) break;
        await beat();
      }
    } finally {
      clearInterval(timer);
    }
    if (lost) throw lost;
  }

  /** False where the records are no longer ours to deliver. */
  #deliver(assignment: Assignment, records: BusRecord[], payload: EachBatchPayload): Promise<boolean> {
    return this.#call(async (handler) => {
      const stale = payload.isStale() || this.#rejoining || !this.#assignments.isCurrent(assignment);
      if (stale || this.#closing || this.#failed) return false;
      try {
        await handler.records(assignment.partition, records);
      } catch (error) {
        this.#failed ??= error as Error;
        // Any other error the client would take for its own, and call the handler again with the same records.
        throw new KafkaJSNonRetriableError(error as Error);
      }
      const last = (records.at(-1) as BusRecord).offset;
      assignment.position = last + 1n;
      // Another fetch may have joined a rebalance meanwhile; then the client knows of another position, or of none.
      if (payload.isStale() || !this.#assignments.isCurrent(assignment)) return false;
      payload.resolveOffset(String(last));
      return true;
    });
  }

  /** One call of the handler after the other. */
  #call<T>(call: (handler: ConsumerHandler) => Promise<T>): Promise<T> {
    const result = this.#calls.then(() => call(this.#handler as ConsumerHandler));
    this.#calls = result.catch(() => {});
    return result;
  }

  /** Where the client went on after a reset. It also tells of one where it tried the committed offset before our seek. */
  #settle(assignment: Assignment, first: bigint): void {
    assignment.reset = false;
    if (first === assignment.position) return;
    assignment.position = first;
    this.#offsetResets++;
  }

  /** Also of partitions that nothing is fetched from any more: that they fall behind is how it shows. */
  async #measureLag(): Promise<void> {
    try {
      for (const topic of this.#topics) {
        const ends = await this.#offsets.ends(topic);
        for (const assignment of this.#assignments.all)
          if (assignment.partition.topic === topic)
            assignment.end = ends.get(assignment.partition.partition) ?? assignment.end;
      }
    } catch (error) {
      this.#log('warn', `Kafka: the lag is not known: ${(error as Error).message}`);
    }
  }

  /** The client asks its assigner for each request to join: two without a join between mean a round that we missed. */
  #countingAssigner(): PartitionAssigner {
    return (config) => {
      const assigner = byPartition(config);
      return {
        ...assigner,
        protocol: (subscription) => {
          this.#joinRequests++;
          return assigner.protocol(subscription);
        },
      };
    };
  }
}
