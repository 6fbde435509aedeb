import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { link, mkdir, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { PicketError } from '../../protocol/errors.js';
import type { Bus, Consumer, Producer, TopicPartition, TopicSpec } from '../bus.js';
import { makeFolder } from '../folder.js';
import type { BusLog } from '../log.js';
import { EmbeddedConsumer } from './consumer.js';
import type { WriterOptions } from './partition-writer.js';
import { EmbeddedProducer } from './producer.js';
import { syncDir } from './segments.js';

export interface EmbeddedOptions {
  /** Folder of the log, on a local disk; created where it is absent. */
  readonly dir: string;
  /**
   * `always`: a message counts as sent once the disk has it. `never`: once the operating system has it, which a crash of
   * the process survives and a power cut does not.
   */
  readonly fsync?: 'always' | 'never';
  /** A segment this large is finished and a new one begun; by default 64 MiB, or an eighth of a small retention. */
  readonly segmentBytes?: number;
  /** A partition over this size loses its oldest segments, read or not; by default 1 GiB. */
  readonly retentionBytes?: number;
  /** How often an idle consumer looks for news that no file event told it of; by default 100 ms. */
  readonly pollMs?: number;
  readonly log?: BusLog;
}

/**
 * The log on one host's disk, for any number of processes:
 *
 *     topics/<topic>/topic.json                {"partitions": N}
 *     topics/<topic>/<partition>/<offset>.log  segments of frames (frame.ts), named by their first offset
 *     topics/<topic>/<partition>/writer.lock   held by the process that appends
 *     groups/<group>/<topic>-<partition>.*     committed offset, lock of the consumer that reads it
 *     groups/<group>/members/                  a locked file a living consumer
 */
export class EmbeddedBus implements Bus {
  readonly #dir: string;
  readonly #writing: WriterOptions;
  readonly #pollMs: number;
  readonly #open = new Set<Producer | Consumer>();

  private constructor(dir: string, writing: WriterOptions, pollMs: number) {
    this.#dir = dir;
    this.#writing = writing;
    this.#pollMs = pollMs;
  }

  static open(options: EmbeddedOptions): EmbeddedBus {
    const { dir, fsync = 'always', retentionBytes = 1024 * MIB, pollMs = 100 } = options;
    const segmentBytes = options.segmentBytes ?? Math.min(64 * MIB, Math.ceil(retentionBytes / 8));
    if (!(retentionBytes >= segmentBytes && segmentBytes > 0))
      throw new PicketError('bad_config', `retentionBytes ${retentionBytes} holds no segment of ${segmentBytes}`, {
        field: 'retentionBytes',
        remedy: 'give at least segmentBytes',
      });
    try {
      makeFolder(join(dir, 'topics'));
    } catch (error) {
      throw new PicketError('bus_unavailable', `the log's folder cannot be made: ${(error as Error).message}`, {
        file: dir,
        remedy: 'give one on a local disk that this user may write',
      });
    }
    return new EmbeddedBus(
      resolve(dir),
      { fsync, segmentBytes, retentionBytes, log: options.log ?? (() => {}) },
      pollMs,
    );
  }

  async createTopics(topics: readonly TopicSpec[]): Promise<void> {
    for (const { topic, partitions } of topics) {
      const dir = this.#topicDir(topic);
      if (partitionsOf(dir) !== undefined) continue;
      for (let partition = 0; partition < partitions; partition++)
        await mkdir(join(dir, String(partition)), { recursive: true });
      await createWhole(dir, 'topic.json', `${JSON.stringify({ partitions })}\n`);
    }
  }

  async producer(): Promise<Producer> {
    const producer = new EmbeddedProducer((topic) => this.#topic(topic), this.#writing);
    this.#open.add(producer);
    return producer;
  }

  async consumer(group: string, topics: readonly string[]): Promise<Consumer> {
    const partitions: TopicPartition[] = [];
    for (const topic of [...topics].sort()) {
      const { partitions: count } = this.#topic(topic);
      for (let partition = 0; partition < count; partition++) partitions.push({ topic, partition });
    }
    const consumer = new EmbeddedConsumer({
      groupDir: join(this.#dir, 'groups', checkedName('group', group)),
      partitions,
      partitionDir: ({ topic, partition }) => join(this.#topicDir(topic), String(partition)),
      fsync: this.#writing.fsync,
      pollMs: this.#pollMs,
      log: this.#writing.log,
    });
    this.#open.add(consumer);
    return consumer;
  }

  async close(): Promise<void> {
    const open = [...this.#open];
    this.#open.clear();
    await Promise.all(open.map((each) => each.close()));
  }

  #topicDir(topic: string): string {
    return join(this.#dir, 'topics', checkedName('topic', topic));
  }

  #topic(topic: string): { dir: string; partitions: number } {
    const dir = this.#topicDir(topic);
    const partitions = partitionsOf(dir);
    if (partitions !== undefined) return { dir, partitions };
    throw new PicketError('not_found', `there is no topic ${topic} in the log ${this.#dir}`, {
      remedy: 'create it before it is used',
    });
  }
}

const MIB = 1024 * 1024;

/** Names as Kafka has them; they become folder names here. */
function checkedName(what: 'topic' | 'group', name: string): string {
  if (/^[a-zA-Z0-9._-]{1,200}$/.test(name) && name !== '.' && name !== '..') return name;
  throw new PicketError('bad_config', `"${name}" is no name of a ${what}`, {
    remedy: 'use letters, digits, dots, dashes and underscores, 200 at most',
  });
}

function partitionsOf(dir: string): number | undefined {
  const file = join(dir, 'topic.json');
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  const partitions = Number(/^\{"partitions":(\d+)\}\n$/.exec(text)?.[1]);
  if (partitions > 0) return partitions;
  throw new PicketError('bus_unavailable', 'not the description of a topic', { file });
}

/** Creates a file with all of its content or, where it is there already, not at all. */
async function createWhole(dir: string, name: string, content: string): Promise<void> {
  const draft = join(dir, `${name}.${randomUUID()}`);
  await writeFile(draft, content, { flush: true });
  try {
    await link(draft, join(dir, name));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    await rm(draft);
  }
  await syncDir(dir);
}
