import type { Logger } from 'pino';
import type { BusRecord, Producer, TopicPartition } from '../../bus/bus.js';
import { decodePhases } from '../../protocol/arrow.js';
import { PicketError } from '../../protocol/errors.js';
import { decodeSamples } from '../../protocol/sample-message.js';
import { DEAD_LETTER_HEADERS, deadLetterTopic } from '../../protocol/topics.js';
import type { Baseline } from '../baseline/baseline.js';
import type { FailPoints } from '../failpoints.js';
import type { Transition } from '../incidents/incident-book.js';
import type { StormLimits } from '../incidents/storms.js';
import type { DetectorMetrics } from '../metrics.js';
import { isRouted, notificationsFor } from '../notify/notifications.js';
import type { Route } from '../notify/route.js';
import { jobKey, PartitionPipeline, type PipelineCounts } from '../pipeline/partition-pipeline.js';
import type { RulesInForce } from '../rules/rules-in-force.js';
import type { Checkpoint, JobSeen, Store } from '../store/store.js';
import { endLost } from './lost-state.js';

export interface WorkerDeps {
  readonly store: Store;
  readonly producer: Producer;
  readonly routes: readonly Route[];
  readonly rules: RulesInForce;
  readonly baseline?: Baseline | undefined;
  readonly storms?: StormLimits;
  /** Told how many more findings rules have dropped or muted. */
  readonly onSuppressed: (findings: number) => void;
  readonly metrics: DetectorMetrics;
  readonly log: Pick<Logger, 'info' | 'warn' | 'error'>;
  readonly checkpointMs: number;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Milliseconds on a clock that nobody sets. */
  readonly monotonic: () => number;
  /** Called after a commit with notifications. */
  readonly onNotifications: () => void;
  readonly failPoints?: FailPoints | undefined;
}

/** A commit without news waits for `checkpointMs` or so many messages: each writes a snapshot. */
const COMMIT_MESSAGES = 256;
/** Without news, commits of all partitions take no more than a tenth of the time, however much there is to write. */
const COMMIT_PAUSE = 9;

/**
 * One partition while this detector owns it. Messages go through the pipeline; incidents, notifications, the offset and
 * the pipeline's state are written in one transaction, so that a kill at any moment repeats or loses nothing.
 */
export class PartitionWorker {
  readonly #partition: TopicPartition;
  readonly #deps: WorkerDeps;
  readonly #partitions: () => number;
  readonly #pipeline: PartitionPipeline;
  readonly #epoch: number;
  #nextOffset: bigint;
  readonly startOffset: bigint | undefined;
  #transitions: Transition[] = [];
  /** Jobs that have not fallen silent. */
  readonly #jobs = new Map<string, JobSeen>();
  /** When data of each job that is followed last came, by the monotonic clock. */
  readonly #seenMs = new Map<string, number>();
  #counted: PipelineCounts;
  #uncommitted = 0;
  #committedAtMs: number;
  #commitMs = 0;

  /** @param partitions how many this detector has now */
  constructor(partition: TopicPartition, deps: WorkerDeps, partitions: () => number = () => 1) {
    this.#partitions = partitions;
    this.#partition = partition;
    this.#deps = deps;
    this.#pipeline = new PartitionPipeline(deps.rules, deps.baseline, deps.storms);
    this.#committedAtMs = deps.monotonic();
    const { epoch, checkpoint } = deps.store.acquire(partition);
    this.#epoch = epoch;
    this.#nextOffset = checkpoint?.nextOffset ?? 0n;
    this.startOffset = checkpoint?.restartOffset;
    if (checkpoint && !this.#restore(checkpoint)) this.startOffset = checkpoint.nextOffset;
    this.#counted = this.#pipeline.counts();
    this.#recallJobs();
    // The rules may have changed since the state was stored.
    this.#transitions.push(...this.#pipeline.revise());
  }

  #restore({ snapshot, jobs = new Map() }: Checkpoint): boolean {
    const { store, log, now } = this.#deps;
    if (this.#pipeline.restore({ partition: snapshot, jobs })) return true;
    log.warn(
      { partition: this.#partition },
      'the stored state is of another version of Picket, or damaged: windows are learnt anew',
    );
    this.#transitions.push(...endLost(store, jobs.keys(), now()));
    return false;
  }

  /** Takes in records in offset order; returns the next offset once something was committed, for the bus. */
  async records(records: readonly BusRecord[]): Promise<bigint | undefined> {
    const { metrics } = this.#deps;
    const started = performance.now();
    for (const record of records) await this.#take(record);
    metrics.loopBusy.inc((performance.now() - started) / 1000);
    return this.#transitions.length > 0 || this.#isDue() ? this.commit() : undefined;
  }

  /** Writes what has come in since the last commit once that is due, though no record follows; returns as `records`. */
  commitIfDue(): bigint | undefined {
    return this.#uncommitted > 0 && this.#isDue() ? this.commit() : undefined;
  }

  #isDue(): boolean {
    const { monotonic, checkpointMs } = this.#deps;
    const sinceMs = monotonic() - this.#committedAtMs;
    const pauseMs = COMMIT_PAUSE * this.#commitMs * this.#partitions();
    return sinceMs >= pauseMs && (this.#uncommitted >= COMMIT_MESSAGES || sinceMs >= checkpointMs);
  }

  /** Jobs that were followed before a restart are silent since they last sent. */
  #recallJobs(): void {
    const { store, now, monotonic } = this.#deps;
    for (const [key, { job }] of this.#pipeline.jobs()) {
      const silentMs = Math.max(0, now() - (store.job(job)?.lastDataMs ?? now()));
      this.#seenMs.set(key, monotonic() - silentMs);
    }
  }

  /** Offset of the first message of samples that is not known, for the bus; undefined: none has been taken in. */
  get nextSample(): bigint | undefined {
    return this.#pipeline.nextSample;
  }

  /** Takes in records of the partition of samples that goes with this one: they are committed with what follows. */
  async samples(partition: TopicPartition, records: readonly BusRecord[]): Promise<void> {
    for (const record of records) {
      const samples = await this.#decode(record, decodeSamples, partition);
      this.#pipeline.addSamples(samples ?? [], record.offset);
      this.#deps.metrics.messages.inc();
    }
  }

  /**
   * Judges what waits of jobs that have sent nothing for `idleMs`, and forgets those that have sent nothing for `forgetMs`;
   * returns the next offset if that was news.
   */
  lookForSilence(idleMs: number, forgetMs: number): bigint | undefined {
    const now = this.#deps.monotonic();
    const silentFor = (ms: number) => (key: string) => now - (this.#seenMs.get(key) ?? now) >= ms;
    const silent = [...this.#jobs.keys()].filter(silentFor(idleMs));
    for (const key of silent) this.#jobs.delete(key);
    this.#transitions.push(...this.#pipeline.silence(silent));
    const gone = [...this.#seenMs.keys()].filter(silentFor(forgetMs));
    if (gone.length > 0) this.#forget(gone);
    // What has been judged is written even where it was no news.
    this.#uncommitted += silent.length;
    return this.#transitions.length > 0 || gone.length > 0 ? this.commit() : undefined;
  }

  #forget(keys: readonly string[]): void {
    this.#transitions.push(...this.#pipeline.flush(keys));
    // What they counted leaves the totals with them.
    this.#count();
    this.#transitions.push(...this.#pipeline.forget(keys));
    for (const key of keys) this.#seenMs.delete(key);
    this.#counted = this.#pipeline.counts();
  }

  /** Judges all open incidents anew: the rules have changed. */
  revise(): bigint | undefined {
    this.#transitions.push(...this.#pipeline.revise());
    return this.#transitions.length > 0 ? this.commit() : undefined;
  }

  /** Writes all that happened since the last commit. Throws `conflict` once another detector owns the partition. */
  commit(): bigint {
    const { store, routes, metrics, failPoints, monotonic } = this.#deps;
    failPoints?.hit('store.before_commit');
    const started = monotonic();
    const stop = metrics.commitSeconds.startTimer();
    const changed = new Map(this.#transitions.map(({ after }) => [after.id, after]));
    const open = this.#pipeline.openIncidents().filter((incident) => !changed.has(incident.id));
    const notifications = this.#transitions.flatMap(({ before, after }) => notificationsFor(before, after, routes));
    const { partition, jobs } = this.#pipeline.snapshot();
    store.commit({
      partition: this.#partition,
      epoch: this.#epoch,
      checkpoint: {
        nextOffset: this.#nextOffset,
        restartOffset: this.#pipeline.oldestNeeded(this.#nextOffset),
        snapshot: partition,
        jobs,
      },
      incidents: [...changed.values(), ...open],
      notifications,
      changes: this.#transitions.map(({ after }) => after),
      jobs: [...this.#jobs.values()],
    });
    this.#pipeline.saved();
    stop();
    failPoints?.hit('store.after_commit');
    for (const { before, after } of this.#transitions)
      if (!before) metrics.incidentOpened(after, isRouted(after, routes));
    this.#count();
    this.#transitions = [];
    this.#uncommitted = 0;
    this.#committedAtMs = monotonic();
    this.#commitMs = this.#committedAtMs - started;
    if (notifications.length > 0) this.#deps.onNotifications();
    return this.#nextOffset;
  }

  /** What the pipeline counted since the last time goes into the metrics. */
  #count(): void {
    const { metrics } = this.#deps;
    const [last, now] = [this.#counted, this.#pipeline.counts()];
    this.#counted = now;
    metrics.stepsClosed.inc(now.steps - last.steps);
    metrics.stepsPartial.inc(now.partialSteps - last.partialSteps);
    metrics.lateRows.inc(now.late - last.late);
    metrics.duplicateRows.inc(now.duplicates - last.duplicates);
    this.#deps.onSuppressed(total(now.suppressed) - total(last.suppressed));
    for (const reason of ['late', 'unused', 'overflow'] as const)
      metrics.samplesDropped(reason, now.samples[reason] - last.samples[reason]);
    metrics.samples.inc(now.samples.taken - last.samples.taken);
    for (const [reason, rows] of now.dropped) metrics.rowsDropped(reason, rows - (last.dropped.get(reason) ?? 0));
  }

  async #take(record: BusRecord): Promise<void> {
    const { metrics, now } = this.#deps;
    const again = record.offset < this.#nextOffset;
    const batch = await this.#decode(record, decodePhases, this.#partition, again);
    if (batch) {
      const place = `${this.#partition.topic}/${this.#partition.partition}@${record.offset}`;
      this.#transitions.push(...this.#pipeline.add(batch, { place, offset: record.offset, again }));
      const { job, run } = batch.meta;
      const lastDataMs = now();
      const key = jobKey(batch.meta);
      this.#jobs.set(key, { job, run, lastDataMs });
      this.#seenMs.set(key, this.#deps.monotonic());
      metrics.lastData.set(lastDataMs / 1000);
      metrics.rows.inc(batch.length);
    }
    metrics.messages.inc();
    this.#uncommitted++;
    if (!again) this.#nextOffset = record.offset + 1n;
  }

  /** A message that cannot be read goes to the dead letters, bytes untouched, before anything after it is committed. */
  async #decode<T>(
    record: BusRecord,
    decode: (bytes: Uint8Array) => T,
    partition: TopicPartition,
    again = false,
  ): Promise<T | undefined> {
    try {
      return decode(record.value);
    } catch (error) {
      if (!(error instanceof PicketError)) throw error;
      if (!again) await this.#deadLetter(record, error, partition);
      return undefined;
    }
  }

  async #deadLetter(record: BusRecord, error: PicketError, { topic, partition }: TopicPartition): Promise<void> {
    const { metrics, log, producer } = this.#deps;
    metrics.decodeError(error.code);
    log.warn({ topic, partition, offset: String(record.offset), reason: error.message }, 'message cannot be read');
    const headers = {
      ...record.headers,
      [DEAD_LETTER_HEADERS.topic]: topic,
      [DEAD_LETTER_HEADERS.partition]: String(partition),
      [DEAD_LETTER_HEADERS.offset]: String(record.offset),
      [DEAD_LETTER_HEADERS.reason]: error.message,
    };
    await producer.send(deadLetterTopic(topic), [{ key: record.key, value: record.value, headers }]);
  }
}

const total = (counts: ReadonlyMap<string, number>): number =>
  [...counts.values()].reduce((sum, count) => sum + count, 0);
