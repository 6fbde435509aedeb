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
const SNAPSHOT_VERSION = 7;

interface Snapshot {
  version: number;
  jobs: [string, JobState][];
  /** By job, whatever the run: a NIC does not start anew with it. */
  counters: Map<string, Counters>;
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
  #counters = new Map<string, Counters>();
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
    let counters = this.#counters.get(job);
    if (!counters) this.#counters.set(job, (counters = newCounters()));
    return counters;
  }

  /** Counts records of a job that were lost before they became rows. */
  countBad(meta: JobMeta, reason: string, count: number, place: string): void {
    this.#jobOf(meta).countBad(reason, count, place);
  }

  /** Judges all that waits in the given jobs (default: all). */
  flush(jobs: Iterable<string> = this.#jobs.keys()): Transition[] {
    return this.#withStorms([...jobs].flatMap((name) => [...(this.#jobs.get(name)?.flush() ?? [])]));
  }

  /** Judges what waits of jobs that have fallen silent, and resolves what their rules do not keep open without data. */
  silence(jobs: Iterable<string>): Transition[] {
    const silent = [...jobs].flatMap((name) => this.#jobs.get(name) ?? []);
    return this.#withStorms(silent.flatMap((job) => [...job.flush(), ...job.resolveSilent()]));
  }

  /** Judges all open incidents anew: the rules have changed. */
  revise(): Transition[] {
    return this.#withStorms([...this.#jobs.values()].flatMap((job) => job.revise()));
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
      dropped: this.#dropped,
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

  snapshot(): Uint8Array {
    const jobs = [...this.#jobs].map(([name, { state }]): [string, JobState] => [name, state]);
    const [counters, nextSample] = [this.#counters, this.#nextSample];
    const storms = this.#storms;
    return serialize({ version: SNAPSHOT_VERSION, jobs, counters, nextSample, storms } satisfies Snapshot);
  }

  /** False if the snapshot is of another version: the pipeline then starts empty. */
  restore(bytes: Uint8Array): boolean {
    const { version, jobs, counters, nextSample, storms } = deserialize(bytes) as Snapshot;
    if (version !== SNAPSHOT_VERSION) return false;
    this.#counters = counters;
    this.#nextSample = nextSample;
    this.#storms = storms;
    for (const [name, state] of jobs) this.#jobs.set(name, this.#pipelineOf(state));
    return true;
  }

  #jobOf(meta: JobMeta): JobPipeline {
    const name = jobKey(meta);
    let job = this.#jobs.get(name);
    if (!job) this.#jobs.set(name, (job = this.#pipelineOf(newJobState(meta, this.#attemptBefore(meta)))));
    return job;
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
