import { deserialize, serialize } from 'node:v8';
import type { Incident } from '../../protocol/incident.js';
import type { JobMeta } from '../../protocol/job-meta.js';
import type { PhaseBatch } from '../../protocol/phase-batch.js';
import { checkRows } from '../../protocol/phase-checks.js';
import type { SampleRow } from '../../protocol/sample.js';
import type { Baseline } from '../baseline/baseline.js';
import { addSample, type Counters, newCounters, type SampleCounts } from '../counters/counters.js';
import type { Transition } from '../incidents/incident-book.js';
import {
  followStorms,
  newStormState,
  STORM_LIMITS,
  type StormLimits,
  type StormState,
  withStorm,
} from '../incidents/storms.js';
import { BUILT_IN_RULES, type RulesInForce } from '../rules/rules-in-force.js';
import { JobPipeline, type JobState, newJobState } from './job-pipeline.js';

/** Raised with every change of what a snapshot holds: an older one is not guessed at, its window is learnt anew. */
const SNAPSHOT_VERSION = 11;

/** What a pipeline goes on from. */
export interface PipelineSnapshot {
  /** What is no one job's. */
  readonly partition: Uint8Array;
  /** By key: those that have changed since the last one was stored; null: gone. */
  readonly jobs: ReadonlyMap<string, Uint8Array | null>;
}

interface PartitionState {
  version: number;
  nextSample: bigint | undefined;
  storms: StormState;
}

/** Totals over all jobs since the snapshots began. */
export interface PipelineCounts {
  rows: number;
  dropped: ReadonlyMap<string, number>;
  late: number;
  duplicates: number;
  steps: number;
  partialSteps: number;
  /** Findings that rules dropped or muted, by reason. */
  suppressed: ReadonlyMap<string, number>;
  samples: SampleCounts;
}

/**
 * All jobs of one partition (or of one file): rows in, incident transitions out. A pure function of the rows in their
 * order: no clock and no I/O, so that live, replay and restart give the same incidents.
 */
export class PartitionPipeline {
  readonly #jobs = new Map<string, JobPipeline>();
  /** By `countersKey`. */
  readonly #counters = new Map<string, Counters>();
  /** Keys of jobs and counters that are not stored as they are. */
  readonly #changed = new Set<string>();
  #nextSample: bigint | undefined;
  /** Impossible rows by reason. */
  readonly #dropped = new Map<string, number>();
  readonly #rules: RulesInForce;
  readonly #baseline: Baseline | undefined;
  #storms = newStormState();
  readonly #stormLimits: StormLimits;

  constructor(rules: RulesInForce = BUILT_IN_RULES, baseline?: Baseline, stormLimits: StormLimits = STORM_LIMITS) {
    this.#stormLimits = stormLimits;
    this.#rules = rules;
    this.#baseline = baseline;
  }

  /** Takes in one message. `again`: it was taken in before a restart; what it says is known, its open steps are not. */
  add(batch: PhaseBatch, source: { place: string; offset: bigint; again: boolean }): Transition[] {
    const job = this.#jobOf(batch.meta);
    const checks = checkRows(batch);
    job.add(batch, checks, source.place, source.again, source.offset);
    if (source.again) return [];
    for (const [reason, { count }] of checks.dropped)
      this.#dropped.set(reason, (this.#dropped.get(reason) ?? 0) + count);
    return this.#withStorms([...job.close()]);
  }

  /**
   * Takes in the sample rows of a message. They come by another way than phase rows: a step is judged with those of its
   * time that are there, and does not wait for others.
   * @param offset of the message, where it has one: those before `nextSample` are known
   */
  addSamples(samples: Iterable<SampleRow>, offset?: bigint): void {
    if (offset !== undefined && offset < (this.#nextSample ?? 0n)) return;
    for (const sample of samples) addSample(this.#countersOf(sample.job ?? ''), sample);
    if (offset !== undefined) this.#nextSample = offset + 1n;
  }

  /** Offset of the first message of samples that has not been taken in; undefined: none has been. */
  get nextSample(): bigint | undefined {
    return this.#nextSample;
  }

  #countersOf(job: string): Counters {
    const key = countersKey(job);
    let counters = this.#counters.get(key);
    if (!counters) this.#counters.set(key, (counters = newCounters()));
    this.#changed.add(key);
    return counters;
  }

  /** Counts records of a job that were lost before they became rows. */
  countBad(meta: JobMeta, reason: string, count: number, place: string): void {
    this.#jobOf(meta).countBad(reason, count, place);
  }

  /** Judges all that waits in the given jobs (default: all). */
  flush(jobs: Iterable<string> = this.#jobs.keys()): Transition[] {
    return this.#withStorms(this.#changing(jobs).flatMap((job) => [...job.flush()]));
  }

  /** Judges what waits of jobs that have fallen silent, and resolves what their rules do not keep open without data. */
  silence(jobs: Iterable<string>): Transition[] {
    return this.#withStorms(this.#changing(jobs).flatMap((job) => [...job.flush(), ...job.resolveSilent()]));
  }

  /** Ends all that is open of the given jobs and forgets them: one that sends again begins anew. */
  forget(keys: Iterable<string>): Transition[] {
    const jobs = this.#changing(keys);
    const transitions = this.#withStorms(jobs.flatMap((job) => [...job.flush(), ...job.resolveAll()]));
    const metas = jobs.map(({ state }) => state.topology.meta);
    for (const meta of metas) this.#jobs.delete(jobKey(meta));
    for (const meta of metas) if (!this.#attemptBefore(meta)) this.#counters.delete(countersKey(meta.job));
    return transitions;
  }

  /** Keys of all jobs, each with its job and run. */
  jobs(): Map<string, JobMeta> {
    return new Map([...this.#jobs].map(([key, { state }]) => [key, state.topology.meta]));
  }

  /** Judges all open incidents anew: the rules have changed. */
  revise(): Transition[] {
    return this.#withStorms(this.#changing(this.#jobs.keys()).flatMap((job) => job.revise()));
  }

  #withStorms(transitions: readonly Transition[]): Transition[] {
    return followStorms(this.#storms, transitions, this.#stormLimits);
  }

  /** Rules whose expression had no value at any of its evaluations, and why it had none the last time. */
  expressionsWithoutValue(): ReadonlyMap<string, string> {
    const tallies = [...this.#jobs.values()].flatMap((job) => [...job.state.expressions.tallies]);
    const never = tallies.filter(([, { evaluated, withoutValue }]) => withoutValue === evaluated);
    const had = new Set(tallies.filter((each) => !never.includes(each)).map(([rule]) => rule));
    return new Map(never.filter(([rule]) => !had.has(rule)).map(([rule, { reason }]) => [rule, reason]));
  }

  /** Incidents that are not over. */
  openIncidents(): Incident[] {
    const ofJobs = [...this.#jobs.values()].flatMap(({ state }) => [
      ...state.book.values(),
      ...state.hangBook.values(),
      ...state.qualityBook.values(),
    ]);
    const storms = [...this.#storms.storms.values()].map(({ incident }) => incident);
    return [...ofJobs.map((incident) => withStorm(this.#storms, incident)), ...storms];
  }

  /** Offset of the oldest message with rows of a step that has not closed. */
  oldestNeeded(nextOffset: bigint): bigint {
    let oldest = nextOffset;
    for (const { assembler } of this.#jobs.values())
      if (assembler.oldestOffset !== undefined && assembler.oldestOffset < oldest) oldest = assembler.oldestOffset;
    return oldest;
  }

  counts(): PipelineCounts {
    const total: PipelineCounts = {
      rows: 0,
      dropped: new Map(this.#dropped),
      late: 0,
      duplicates: 0,
      steps: 0,
      partialSteps: 0,
      suppressed: new Map(),
      samples: { ...newCounters().counts },
    };
    for (const { counts } of this.#counters.values())
      for (const name of ['taken', 'late', 'unused', 'overflow'] as const) total.samples[name] += counts[name];
    const suppressed = new Map<string, number>();
    for (const { state } of this.#jobs.values()) {
      const { rows, late, duplicates, steps, partialSteps } = state.assembler.counts;
      total.rows += rows;
      total.late += late;
      total.duplicates += duplicates;
      total.steps += steps;
      total.partialSteps += partialSteps;
      for (const [reason, count] of [...state.holds.counts, ...state.qualityHolds.counts])
        suppressed.set(reason, (suppressed.get(reason) ?? 0) + count);
    }
    return { ...total, suppressed };
  }

  /** What has changed since `saved`. */
  snapshot(): PipelineSnapshot {
    const [nextSample, storms] = [this.#nextSample, this.#storms];
    const partition: PartitionState = { version: SNAPSHOT_VERSION, nextSample, storms };
    const stateOf = (key: string) => this.#jobs.get(key)?.state ?? this.#counters.get(key);
    const jobs = [...this.#changed].map((key): [string, Uint8Array | null] => {
      const state = stateOf(key);
      return [key, state ? serialize(state) : null];
    });
    return { partition: serialize(partition), jobs: new Map(jobs) };
  }

  /** What `snapshot` gave has been stored. */
  saved(): void {
    this.#changed.clear();
  }

  /** False if the snapshot is damaged or of another version: the pipeline then starts empty. */
  restore(snapshot: PipelineSnapshot): boolean {
    try {
      const { version, nextSample, storms } = deserialize(snapshot.partition) as PartitionState;
      if (version !== SNAPSHOT_VERSION) throw new Error('another version');
      const states = [...snapshot.jobs].flatMap(([key, bytes]) => (bytes ? [[key, deserialize(bytes)] as const] : []));
      for (const [key, state] of states) if (isCountersKey(key)) this.#counters.set(key, state as Counters);
      for (const [key, state] of states)
        if (!isCountersKey(key)) this.#jobs.set(key, this.#pipelineOf(state as JobState));
      this.#nextSample = nextSample;
      this.#storms = storms;
      this.#changed.clear();
      return true;
    } catch {
      this.#jobs.clear();
      this.#counters.clear();
      // So that nothing of it is left where it is stored.
      for (const key of snapshot.jobs.keys()) this.#changed.add(key);
      return false;
    }
  }

  /** Jobs about to change. */
  #changing(keys: Iterable<string>): JobPipeline[] {
    return [...keys].flatMap((key) => {
      const job = this.#jobs.get(key);
      if (!job) return [];
      this.#changed.add(key).add(countersKey(job.state.topology.meta.job));
      return [job];
    });
  }

  #jobOf(meta: JobMeta): JobPipeline {
    const name = jobKey(meta);
    if (!this.#jobs.has(name)) this.#jobs.set(name, this.#pipelineOf(newJobState(meta, this.#attemptBefore(meta))));
    return this.#changing([name])[0] as JobPipeline;
  }

  /** The newest attempt of a job. */
  #attemptBefore({ job }: JobMeta): JobState | undefined {
    return [...this.#jobs.values()].findLast(({ state }) => state.topology.meta.job === job)?.state;
  }

  #pipelineOf(state: JobState): JobPipeline {
    return new JobPipeline(state, this.#rules, this.#baseline, this.#countersOf(state.topology.meta.job));
  }
}

export const jobKey = ({ job, run }: Pick<JobMeta, 'job' | 'run'>): string => `${job}\0${run}`;

export const jobOfKey = (key: string): string => key.slice(0, key.lastIndexOf('\0'));

/** Counters are those of a job, whatever the run: a NIC does not start anew with it. No run's name is empty. */
const countersKey = (job: string): string => jobKey({ job, run: '' });
const isCountersKey = (key: string): boolean => key.endsWith('\0');
