import type { Incident } from '../../protocol/incident.js';
import type { Int64 } from '../../protocol/int64.js';
import type { JobMeta } from '../../protocol/job-meta.js';
import type { PhaseBatch } from '../../protocol/phase-batch.js';
import { checkRows } from '../../protocol/phase-checks.js';
import { Assembler, baseOf, type ClosedStep } from '../pipeline/assembler.js';
import { decompose, type StepEnds } from '../pipeline/decompose.js';
import { jobKey, PartitionPipeline } from '../pipeline/partition-pipeline.js';
import { type StepView, WORK_CLASSES } from '../pipeline/step-view.js';
import { newTopology } from '../pipeline/topology.js';
import { type PopulationKey, populationKey } from './population-key.js';
import { Reservoir, seededRandom } from './random.js';
import { bucketOf, STEP_TIME, shapeOf, type WorkShape } from './shape.js';
import { type Transfers, transfersOf } from './transfers.js';

/** What one rank did in one step. */
export interface WorkSample {
  readonly step: number;
  readonly rank: number;
  /** Pipeline stage; -1: none. */
  readonly stage: number;
  readonly shape: WorkShape;
  /** Target (phase, class of work, or STEP_TIME) -> nanoseconds; what it did not do is absent. */
  readonly durations: ReadonlyMap<string, number>;
}

export interface TransferSample {
  readonly step: number;
  readonly transfers: Transfers;
}

/** One run of one job. */
export interface TrainingRun {
  readonly job: string;
  readonly run: string;
  readonly population: PopulationKey;
  readonly work: readonly WorkSample[];
  readonly transfers: readonly TransferSample[];
  readonly steps: number;
  /** Steps that nothing was learnt from: first ones, ones that lack ranks, and those of incidents. */
  readonly leftOut: number;
}

/** Samples kept of one run, stage and bucket. */
const SAMPLES_PER_BUCKET = 4000;
/** An incident begins before it can be told from noise. */
const STEPS_BEFORE_ONSET = 8;

/**
 * Collects what rows of recorded runs teach: the detector's own decomposition, without the steps in which the detector
 * finds an incident. The same rows in the same order give the same set.
 */
export class TrainingSet {
  readonly #jobs = new Map<string, JobRecorder>();
  readonly #detector = new PartitionPipeline();
  readonly #incidents = new Map<string, Incident>();
  readonly #random: () => number;

  constructor(seed: number) {
    this.#random = seededRandom(seed);
  }

  /** Takes in one message. */
  add(batch: PhaseBatch): void {
    const key = jobKey(batch.meta);
    let job = this.#jobs.get(key);
    if (!job) this.#jobs.set(key, (job = new JobRecorder(batch.meta, this.#random)));
    job.add(batch);
    this.#take(this.#detector.add(batch, { place: '', offset: 0n, again: false }).map(({ after }) => after));
  }

  /** Everything that was taken in, as runs; nothing can be added afterwards. */
  finish(): TrainingRun[] {
    this.#take(this.#detector.flush().map(({ after }) => after));
    this.#take(this.#detector.openIncidents());
    return [...this.#jobs].map(([key, job]) => {
      const own = [...this.#incidents.values()].filter(({ subject }) => jobKey(subject) === key);
      return job.finish((step) => own.some((incident) => covers(incident, step)));
    });
  }

  #take(incidents: readonly Incident[]): void {
    for (const incident of incidents) if (incident.kind !== 'data_quality') this.#incidents.set(incident.id, incident);
  }
}

const covers = ({ onset_step, last_step }: Incident, step: number): boolean =>
  step >= onset_step - STEPS_BEFORE_ONSET && step <= last_step;

class JobRecorder {
  readonly #topology;
  readonly #assembler;
  readonly #ends: StepEnds['ends'] = new Map();
  readonly #random: () => number;
  readonly #work = new Map<string, Reservoir<WorkSample>>();
  readonly #transfers = new Map<string, Reservoir<TransferSample>>();
  /** Steps that can be learnt from. */
  readonly #learnt = new Set<number>();
  #base: Int64 | undefined;
  #steps = 0;

  constructor(meta: JobMeta, random: () => number) {
    this.#topology = newTopology(meta);
    this.#assembler = new Assembler(this.#topology);
    this.#random = random;
  }

  add(batch: PhaseBatch): void {
    const { keep } = checkRows(batch);
    this.#base ??= baseOf(batch, keep);
    this.#assembler.add(batch, keep, false, 0n);
    for (const closed of this.#assembler.close()) this.#record(closed);
  }

  finish(isBad: (step: number) => boolean): TrainingRun {
    for (const closed of this.#assembler.closeAll()) this.#record(closed);
    const good = <Sample extends { step: number }>(kept: Map<string, Reservoir<Sample>>): Sample[] =>
      [...kept.values()].flatMap(({ items }) => items).filter(({ step }) => !isBad(step));
    const { meta } = this.#topology;
    const learnt = [...this.#learnt].filter((step) => !isBad(step)).length;
    return {
      job: meta.job,
      run: meta.run,
      population: populationKey(meta),
      work: good(this.#work),
      transfers: good(this.#transfers),
      steps: this.#steps,
      leftOut: this.#steps - learnt,
    };
  }

  #record({ rows, live }: ClosedStep): void {
    const topology = this.#topology;
    const view = decompose(rows, topology, { base: this.#base as Int64, ends: this.#ends }, live);
    // The first step of a run compiles, warms up and allocates; a step without some ranks has no known transfers.
    if (this.#steps++ === 0 || view.missing.length > 0) return;
    this.#learnt.add(view.step);
    for (const slot of rows.starts.keys()) {
      const shape = shapeOf(view, slot);
      const [rank, stage] = [topology.ranks[slot] as number, topology.stages[slot] as number];
      const sample = { step: view.step, rank, stage, shape, durations: durationsOf(view, slot) };
      this.#reservoir(this.#work, `${stage} ${bucketOf(shape)}`).push(sample);
    }
    for (const transfers of transfersOf(view, topology)) {
      const { op, ranks, hosts, launch, bytes } = transfers;
      if (!(bytes > 0 && transfers.transferNs > 0)) continue;
      const kept = this.#reservoir(this.#transfers, [op, ranks, hosts, launch, bytes].join(' '));
      kept.push({ step: view.step, transfers });
    }
  }

  #reservoir<Item>(all: Map<string, Reservoir<Item>>, key: string): Reservoir<Item> {
    let reservoir = all.get(key);
    if (!reservoir) all.set(key, (reservoir = new Reservoir(SAMPLES_PER_BUCKET, this.#random)));
    return reservoir;
  }
}

/** Own work only: how long a collective took says more about the other ranks. */
function durationsOf(view: StepView, slot: number): Map<string, number> {
  const durations = new Map<string, number>();
  const take = (target: string, duration: number): void => {
    if (duration > 0) durations.set(target, duration);
  };
  for (const [phase, sums] of view.phases) if (!view.commPhases.includes(phase)) take(phase, sums[slot] as number);
  for (const name of WORK_CLASSES) take(name, view.work[name][slot] as number);
  take(STEP_TIME, view.stepTime[slot] as number);
  return durations;
}
