import type { BusRecord, Consumer, ConsumerHandler, TopicPartition } from '../../bus/bus.js';
import { TOPICS } from '../../protocol/topics.js';
import { PartitionWorker, type WorkerDeps } from './partition-worker.js';

/** The partitions that this detector owns now: a worker for each of phases; samples of the same number go to it as well. */
export class Partitions implements ConsumerHandler {
  readonly #workers = new Map<number, PartitionWorker>();
  readonly #consumer: Pick<Consumer, 'commit'>;
  readonly #deps: WorkerDeps;
  #warned = false;

  constructor(consumer: Pick<Consumer, 'commit'>, deps: WorkerDeps) {
    this.#consumer = consumer;
    this.#deps = deps;
  }

  async assigned(partition: TopicPartition): Promise<bigint | undefined> {
    if (isOfSamples(partition)) return this.#workers.get(partition.partition)?.nextSample;
    const worker = new PartitionWorker(partition, this.#deps, () => this.#workers.size);
    this.#workers.set(partition.partition, worker);
    return worker.startOffset;
  }

  async revoked(partition: TopicPartition): Promise<void> {
    if (!isOfSamples(partition)) this.#workers.delete(partition.partition);
  }

  async records(partition: TopicPartition, records: readonly BusRecord[]): Promise<void> {
    const worker = this.#workers.get(partition.partition);
    if (isOfSamples(partition)) return this.#samples(worker, partition, records);
    const next = await worker?.records(records);
    if (worker && next !== undefined) await this.#committed(partition, worker, next);
  }

  async #committed(partition: TopicPartition, worker: PartitionWorker, next: bigint): Promise<void> {
    await this.#consumer.commit(partition, next);
    const { nextSample } = worker;
    if (nextSample !== undefined)
      await this.#consumer.commit({ topic: TOPICS.samples, partition: partition.partition }, nextSample);
    this.#deps.failPoints?.hit('bus.after_commit');
  }

  /** Without a worker the phases of the number are still another detector's: corroboration is not worth waiting for. */
  async #samples(
    worker: PartitionWorker | undefined,
    partition: TopicPartition,
    records: readonly BusRecord[],
  ): Promise<void> {
    if (worker) await worker.samples(partition, records);
    else this.#drop(partition, records.length);
  }

  #drop({ topic, partition }: TopicPartition, messages: number): void {
    this.#deps.metrics.samplesDropped('no_owner', messages);
    if (this.#warned) return;
    this.#warned = true;
    const remedy = `give ${topic} and ${TOPICS.phases} the same number of partitions`;
    this.#deps.log.warn({ topic, partition, remedy }, 'samples of jobs that this detector does not follow');
  }

  /** Commits what waits though no record follows: the last messages of a stream that has ended or pauses. */
  async commitDue(): Promise<void> {
    for (const [number, worker] of this.#workers) {
      const next = worker.commitIfDue();
      if (next !== undefined) await this.#committed({ topic: TOPICS.phases, partition: number }, worker, next);
    }
  }

  /** See `PartitionWorker.lookForSilence`. */
  lookForSilence(idleMs: number, forgetMs: number): void {
    for (const worker of this.#workers.values()) worker.lookForSilence(idleMs, forgetMs);
  }

  /** Judges all open incidents anew: the rules have changed. */
  revise(): void {
    for (const [number, worker] of this.#workers)
      try {
        worker.revise();
      } catch (error) {
        this.#deps.log.error({ err: error, partition: number }, 'incidents could not be judged by the new rules');
      }
  }

  commitAll(): void {
    for (const worker of this.#workers.values()) worker.commit();
  }
}

const isOfSamples = ({ topic }: TopicPartition): boolean => topic === TOPICS.samples;
