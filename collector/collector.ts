import type { CollectorHeartbeat } from '../protocol/heartbeat.js';
import { newJobMeta } from '../protocol/job-meta.js';
import { TOPICS } from '../protocol/topics.js';
import type { CollectorConfig } from './config.js';
import { DROP_REASONS } from './drops.js';
import { JobRun } from './job-run.js';
import { type Message, messagesOf } from './message.js';
import type { CollectorMetrics } from './metrics.js';
import { type OpenedSegment, Registry, type RegistryDeps } from './registry.js';
import { type RunBook, runName } from './run-book.js';
import { DrainBuffers } from './segment-pipeline.js';
import { SegmentReader } from './segment-reader.js';
import type { Step } from './step.js';
import { TraceRing } from './trace-ring.js';

/** What one segment may hand over before the others have their turn. */
const RECORDS_PER_TURN = 16_384;
/** An engine that stamps nothing for so long idles: its step is sent as it is. */
const QUIET_MS = 1000;
/** Ranks that went are told of for so long. */
const ENDINGS_MS = 600_000;
const MS = 1e6;

export interface CollectorDeps {
  readonly config: CollectorConfig;
  readonly host: string;
  readonly registry: Omit<RegistryDeps, 'defaultJob'>;
  readonly runs: RunBook;
  readonly metrics: CollectorMetrics;
  /** Takes messages of rows; never refuses. */
  readonly push: (messages: readonly Message[]) => void;
  /** Is told of rows that fit no message. */
  readonly onTooLarge: (rows: number) => void;
  readonly log: (level: 'info' | 'warn', facts: object, message: string) => void;
  /** Epoch milliseconds. */
  readonly startedMs: number;
}

interface Ended {
  readonly job: string;
  readonly run: string;
  readonly rank: number;
  readonly ending: 'ended' | 'died';
  readonly atMs: number;
}

/**
 * The collector as a straight line: segments -> drain, pair, align (segment-pipeline) -> steps of all ranks of a job
 * (job-run) -> rows -> messages. Has no clock and no I/O of its own but the segments; every call is given the time.
 */
export class Collector {
  readonly trace: TraceRing;
  readonly #deps: CollectorDeps;
  readonly #epochBase: bigint;
  readonly #registry: Registry;
  readonly #buffers = new DrainBuffers();
  readonly #readers = new Map<OpenedSegment, SegmentReader>();
  readonly #jobs = new Map<string, JobRun>();
  #ended: Ended[] = [];
  #bubblesMs: number;
  readonly #totals = { recordsRead: 0, recordsLost: 0, phasesDropped: 0 };

  constructor(deps: CollectorDeps) {
    this.#deps = deps;
    this.#epochBase = BigInt(deps.startedMs) * BigInt(MS);
    this.#bubblesMs = deps.startedMs;
    this.#registry = new Registry({ ...deps.registry, defaultJob: deps.config.job });
    this.trace = new TraceRing(deps.config.trace_events, this.#epochBase);
  }

  /** Nanoseconds since `startedMs`, what all epoch times are counted in. */
  epochTime(nowMs: number): number {
    return (nowMs - this.#deps.startedMs) * MS;
  }

  /** Looks for new segments and for writers that have gone. */
  scan(nowMs: number): void {
    for (const opened of this.#registry.scan()) this.#begin(opened, nowMs);
    let errors = 0;
    let overhead = 0;
    for (const reader of this.#readers.values()) {
      reader.ending ??= this.#registry.endingOf(reader.opened);
      errors += this.#errorsOf(reader);
      overhead = Math.max(overhead, reader.opened.segment.status().overheadPredicted);
    }
    const { metrics } = this.#deps;
    metrics.engineErrors.set(errors);
    metrics.engineOverhead.set(overhead);
    metrics.setSegments(this.#readers.size, this.#registry.refused);
  }

  /** Takes what waits in the segments, in turns, and hands on what is due; true while more waits. */
  tick(nowMs: number): boolean {
    const now = this.epochTime(nowMs);
    let more = false;
    for (const reader of this.#readers.values()) {
      const taken = reader.pipeline.drain(this.#buffers, now, RECORDS_PER_TURN);
      more ||= taken >= RECORDS_PER_TURN;
      for (const step of reader.pipeline.takeClosed()) this.#deliver(reader, step, nowMs);
      if (reader.ending && taken === 0) this.#finish(reader, nowMs);
      else {
        this.#deliverUnfinished(reader, nowMs);
        reader.opened.segment.commit();
      }
      this.#count(reader, nowMs);
    }
    this.#send(nowMs, false);
    return more;
  }

  /** Jobs whose engines live on this host. */
  get liveJobs(): string[] {
    return [...new Set([...this.#readers.values()].map(({ opened }) => opened.identity.job))];
  }

  /** What the heartbeat says of segments and jobs; the rest is the caller's. */
  heartbeat(nowMs: number): Pick<CollectorHeartbeat, 'jobs' | 'records' | 'phases_dropped' | 'clock_error_ns'> {
    this.#ended = this.#ended.filter(({ atMs }) => nowMs - atMs < ENDINGS_MS);
    const { recordsRead, recordsLost, phasesDropped } = this.#totals;
    return {
      jobs: this.#jobsNow(),
      records: { read: recordsRead, lost: recordsLost },
      phases_dropped: phasesDropped,
      clock_error_ns: this.#showClocks(nowMs),
    };
  }

  /** Hands on all that is there and leaves the segments to the next collector. */
  close(nowMs: number): void {
    while (this.tick(nowMs));
    for (const reader of this.#readers.values()) {
      for (const step of reader.pipeline.finish(false)) this.#deliver(reader, step, nowMs);
      this.#count(reader, nowMs);
    }
    this.#send(Number.POSITIVE_INFINITY, true);
    this.#registry.close();
  }

  #begin(opened: OpenedSegment, nowMs: number): void {
    const { config, runs, metrics, log } = this.#deps;
    const { job, run, rank } = opened.identity;
    const readers = [...this.#readers.values()];
    runs.forgetOld(nowMs, new Set(readers.flatMap((reader) => [reader.opened.id, reader.opened.identity.job])));
    const reader = new SegmentReader(
      opened,
      run ?? runs.attemptOf(job, rank.rank, opened.id, nowMs),
      { epochBase: this.#epochBase, layerDetail: config.layer_detail, rewinds: runs.rewindsOf(opened.id) },
      {
        trace: this.trace,
        durations: metrics.durations,
        inUse: new Set(readers.map(({ traceSource }) => traceSource)),
      },
    );
    this.#readers.set(opened, reader);
    this.#jobRunOf(reader, reader.pipeline.rewinds);
    log('info', { segment: opened.path, job, run: reader.run, rank: rank.rank }, 'reading a segment');
  }

  /** The job and run that steps of a reader belong to, joined by its rank. */
  #jobRunOf({ opened, run, rank, pipeline }: SegmentReader, rewinds: number): JobRun {
    const { config, host } = this.#deps;
    const { job, facts, groups, rank: info } = opened.identity;
    const name = runName(run, rewinds);
    const key = `${job}\0${name}`;
    let jobRun = this.#jobs.get(key);
    if (!jobRun) {
      jobRun = new JobRun(newJobMeta(job, { ...facts, run: name, host }), {
        epochBase: this.#epochBase,
        clockLimitNs: config.clock_limit_us * 1000,
        layerDetail: config.layer_detail,
      });
      this.#jobs.set(key, jobRun);
    }
    if (!jobRun.live.has(rank)) {
      const ambiguous = jobRun.join({ ...info, clock: pipeline.clock.source }, groups);
      if (ambiguous.length > 0)
        this.#deps.log('warn', { job, rank, groups: ambiguous }, 'ranks give one name to different groups');
    }
    return jobRun;
  }

  #deliver(reader: SegmentReader, step: Step, nowMs: number): void {
    this.#jobRunOf(reader, step.rewinds).deliver(reader.rankStep(step), nowMs);
  }

  /** Phases that last, and the step of an engine that idles. */
  #deliverUnfinished(reader: SegmentReader, nowMs: number): void {
    const { pipeline, rank } = reader;
    const now = this.epochTime(nowMs);
    const quiet = pipeline.takeQuiet(now - QUIET_MS * MS);
    if (quiet) this.#deliver(reader, quiet, nowMs);
    const open = reader.duePhases(now - this.#deps.config.open_after_ms * MS, nowMs);
    if (open.length > 0) this.#jobRunOf(reader, pipeline.rewinds).deliverOpen(rank, open, now, nowMs);
  }

  /** The segment is read up and nobody writes it any more. */
  #finish(reader: SegmentReader, nowMs: number): void {
    const { opened, pipeline, run, rank, ending = 'died' } = reader;
    for (const step of pipeline.finish(ending === 'ended')) this.#deliver(reader, step, nowMs);
    this.#readers.delete(opened);
    const { job } = opened.identity;
    const runs = Array.from({ length: pipeline.rewinds + 1 }, (_, rewinds) => runName(run, rewinds));
    for (const name of runs) this.#jobs.get(`${job}\0${name}`)?.leave(rank);
    this.#ended.push({ job, run: runs.at(-1) as string, rank, ending, atMs: nowMs });
    this.#registry.retire(opened);
    this.#deps.log(ending === 'ended' ? 'info' : 'warn', { job, run, rank }, `the engine of a rank has ${ending}`);
  }

  #send(nowMs: number, all: boolean): void {
    const { config, push, onTooLarge } = this.#deps;
    for (const [key, jobRun] of this.#jobs) {
      jobRun.release(nowMs);
      for (let batch = jobRun.take(nowMs, config, all); batch; batch = jobRun.take(nowMs, config, all)) {
        const { messages, refused } = messagesOf(batch, TOPICS.phases);
        push(messages);
        if (refused > 0) onTooLarge(refused);
      }
      if (jobRun.over) this.#jobs.delete(key);
    }
  }

  #count(reader: SegmentReader, nowMs: number): void {
    const { metrics, runs } = this.#deps;
    const { fencesRead, fencesLost, hostsRead, hostsLost } = reader.newCounts();
    metrics.recordsRead('fence', fencesRead);
    metrics.recordsLost('fence', fencesLost);
    metrics.recordsRead('host', hostsRead);
    metrics.recordsLost('host', hostsLost);
    this.#totals.recordsRead += fencesRead + hostsRead;
    this.#totals.recordsLost += fencesLost + hostsLost;
    const { drops, rewinds } = reader.pipeline;
    for (const reason of DROP_REASONS) {
      metrics.phasesDropped(reason, drops[reason]);
      this.#totals.phasesDropped += drops[reason];
      drops[reason] = 0;
    }
    runs.noteRewinds(reader.opened.id, rewinds, nowMs);
  }

  #errorsOf(reader: SegmentReader): number {
    const { errors, firstError } = reader.opened.segment.status();
    if (errors > 0 && !reader.errorTold) {
      reader.errorTold = true;
      const { path } = reader.opened;
      this.#deps.log('warn', { segment: path, errors, firstError }, 'the fence library of an engine has failed');
    }
    return errors;
  }

  #jobsNow(): CollectorHeartbeat['jobs'] {
    const jobs = new Map<string, CollectorHeartbeat['jobs'][number]>();
    const jobOf = (job: string, run: string) => {
      const key = `${job}\0${run}`;
      let one = jobs.get(key);
      if (!one) jobs.set(key, (one = { job, run, live: [], ended: [], died: [] }));
      return one;
    };
    for (const { opened, run, rank, pipeline } of this.#readers.values())
      jobOf(opened.identity.job, runName(run, pipeline.rewinds)).live.push(rank);
    for (const { job, run, rank, ending } of this.#ended) jobOf(job, run)[ending].push(rank);
    return [...jobs.values()];
  }

  /** Sets the gauges that are about the time since the last call; returns the largest clock error in nanoseconds. */
  #showClocks(nowMs: number): number | null {
    const { metrics } = this.#deps;
    const now = this.epochTime(nowMs);
    const elapsed = Math.max(1, nowMs - this.#bubblesMs) * MS;
    this.#bubblesMs = nowMs;
    const gpus = [...this.#readers.values()].filter(({ pipeline }) => pipeline.clock.source === 'gpu');
    metrics.setBubbles(gpus.map((reader) => [reader.opened.identity.rank.local_rank, reader.bubble(now, elapsed)]));
    const errors = gpus.map(({ pipeline }) => pipeline.uncertainty).filter(Number.isFinite);
    const error = errors.length > 0 ? Math.max(...errors) : null;
    metrics.clockUncertainty.set((error ?? 0) / 1e9);
    return error;
  }
}
