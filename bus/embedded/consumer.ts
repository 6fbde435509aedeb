import { type FSWatcher, watch } from 'node:fs';
import { PicketError } from '../../protocol/errors.js';
import type { Consumer, ConsumerHandler, ConsumerHealth, TopicPartition } from '../bus.js';
import type { BusLog } from '../log.js';
import { commitOffset, committedOffset, GroupMember } from './group.js';
import { PartitionReader } from './partition-reader.js';
import { endOffset } from './segments.js';

export interface EmbeddedConsumerOptions {
  readonly groupDir: string;
  readonly partitions: readonly TopicPartition[];
  readonly partitionDir: (partition: TopicPartition) => string;
  readonly fsync: 'always' | 'never';
  readonly pollMs: number;
  readonly log: BusLog;
}

interface Owned {
  readonly partition: TopicPartition;
  readonly reader: PartitionReader;
  readonly watcher: FSWatcher | undefined;
  lag: bigint;
}

const GROUP_CHECK_MS = 250;
const LAG_CHECK_MS = 1000;

/** Reads its share of the partitions in one loop; no two calls of the handler ever overlap. */
export class EmbeddedConsumer implements Consumer {
  readonly #options: EmbeddedConsumerOptions;
  readonly #owned = new Map<string, Owned>();
  #member: GroupMember | undefined;
  #running: Promise<void> | undefined;
  #closing = false;
  #news = false;
  #wake: () => void = () => {};
  #failed: Error | undefined;
  #lastFetchMs = performance.now();
  #rebalances = 0;
  #resetsOfRevoked = 0;
  #commits: Promise<void> = Promise.resolve();
  #lagTimer: NodeJS.Timeout | undefined;

  constructor(options: EmbeddedConsumerOptions) {
    this.#options = options;
  }

  async start(handler: ConsumerHandler): Promise<void> {
    if (this.#member) throw new PicketError('conflict', 'the consumer has already been started');
    this.#member = GroupMember.join(this.#options.groupDir);
    try {
      await this.#rebalance(this.#member, handler);
    } catch (error) {
      await this.#stop(error as Error);
      throw error;
    }
    this.#rebalances = 0;
    this.#running = this.#run(this.#member, handler);
    this.#lagTimer = setInterval(() => void this.#measureLag(), LAG_CHECK_MS).unref();
  }

  async commit(partition: TopicPartition, nextOffset: bigint): Promise<void> {
    if (!this.#owned.has(nameOf(partition))) return;
    const { groupDir, fsync, log } = this.#options;
    const commit = this.#commits.then(() => commitOffset(groupDir, partition, nextOffset, fsync === 'always'));
    this.#commits = commit.catch((error: Error) => {
      log('warn', `${groupDir}: offset ${nextOffset} of ${nameOf(partition)} is not committed: ${error.message}`);
    });
    await this.#commits;
  }

  health(): ConsumerHealth {
    const owned = [...this.#owned.entries()];
    return {
      joined: this.#running !== undefined && !this.#closing && this.#failed === undefined,
      failed: this.#failed,
      lag: new Map(owned.map(([name, { lag }]) => [name, lag])),
      lastFetchMs: this.#lastFetchMs,
      rebalances: this.#rebalances,
      offsetResets: owned.reduce((sum, [, { reader }]) => sum + reader.resets, this.#resetsOfRevoked),
    };
  }

  async close(): Promise<void> {
    this.#closing = true;
    this.#hint();
    await this.#running;
    await this.#stop(this.#failed);
  }

  async #run(member: GroupMember, handler: ConsumerHandler): Promise<void> {
    let groupCheck = performance.now();
    try {
      while (!this.#closing) {
        this.#news = false;
        const idle = !(await this.#deliver(handler));
        const now = performance.now();
        if (now - groupCheck >= GROUP_CHECK_MS) {
          groupCheck = now;
          await this.#rebalance(member, handler);
        }
        if (idle && !this.#news) await this.#sleep();
      }
    } catch (error) {
      await this.#stop(error as Error);
    }
  }

  /** One read of each partition. Returns whether there was anything. */
  async #deliver(handler: ConsumerHandler): Promise<boolean> {
    let any = false;
    this.#lastFetchMs = performance.now();
    for (const owned of this.#owned.values()) {
      if (this.#closing) break;
      const records = await owned.reader.read();
      if (records.length === 0) owned.lag = 0n;
      else {
        any = true;
        await handler.records(owned.partition, records);
      }
    }
    return any;
  }

  async #rebalance(member: GroupMember, handler: ConsumerHandler): Promise<void> {
    const share = new Map(member.share(this.#options.partitions).map((partition) => [nameOf(partition), partition]));
    let changed = false;
    for (const [name, owned] of [...this.#owned]) {
      if (share.has(name)) continue;
      changed = true;
      await this.#release(name, owned);
      await handler.revoked(owned.partition);
      await this.#commits;
      member.giveUp(owned.partition);
    }
    for (const [name, partition] of share) {
      if (this.#owned.has(name) || !member.tryTake(partition)) continue;
      changed = true;
      await this.#take(name, partition, handler);
    }
    if (changed) this.#rebalances++;
  }

  async #take(name: string, partition: TopicPartition, handler: ConsumerHandler): Promise<void> {
    const { groupDir, partitionDir, log } = this.#options;
    const start = (await handler.assigned(partition)) ?? (await committedOffset(groupDir, partition)) ?? 0n;
    const reader = new PartitionReader(partitionDir(partition), start, log);
    this.#owned.set(name, { partition, reader, watcher: this.#watch(partitionDir(partition)), lag: 0n });
  }

  /** Only a hint that there is something new: without watches, as at the system's limit, polling finds it too. */
  #watch(dir: string): FSWatcher | undefined {
    try {
      return watch(dir, { persistent: false }, () => this.#hint()).on('error', () => {});
    } catch {
      return undefined;
    }
  }

  /** On a clock of its own: a handler that takes long is when the lag is asked for. */
  async #measureLag(): Promise<void> {
    const { partitionDir, log } = this.#options;
    for (const owned of this.#owned.values()) {
      try {
        const end = await endOffset(partitionDir(owned.partition));
        if (end !== undefined) owned.lag = end > owned.reader.next ? end - owned.reader.next : 0n;
      } catch (error) {
        log('warn', `the lag of ${nameOf(owned.partition)} is not known: ${(error as Error).message}`);
      }
    }
  }

  #hint(): void {
    this.#news = true;
    this.#wake();
  }

  #sleep(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, this.#options.pollMs);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  async #release(name: string, owned: Owned): Promise<void> {
    this.#owned.delete(name);
    this.#resetsOfRevoked += owned.reader.resets;
    owned.watcher?.close();
    await owned.reader.close();
  }

  async #stop(failed: Error | undefined): Promise<void> {
    this.#failed = failed;
    clearInterval(this.#lagTimer);
    for (const [name, owned] of [...this.#owned]) await this.#release(name, owned);
    await this.#commits;
    this.#member?.leave();
    this.#member = undefined;
  }
}

export const nameOf = ({ topic, partition }: TopicPartition): string => `${topic}/${partition}`;
