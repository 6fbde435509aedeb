import type { PhaseBatch } from '../../protocol/phase-batch.js';
import type { Cluster } from '../cluster.js';
import { NOISE } from '../measured.js';
import { Random } from '../random.js';
import { LongStep, openFacts } from './long-step.js';
import { MESSAGE_ROWS, type RowFacts, RowWriter } from './row-writer.js';

/** A message aims at this many rows; a fixed cost of decoding makes smaller ones dear. */
const TARGET_ROWS = 1000;
/** Nor do collectors keep rows for long: a second (their default) up to what an outage of the bus holds up. */
const LONGEST_NS = 30e9;

/** How far each host's clock is off, ns. */
export const clockErrorNs = (seed: number, host: string): number =>
  Math.round(NOISE.hostClockNs * (2 * Random.stream(seed, host, 'clock').uniform() - 1));

/** The collectors of a job's hosts: stamps rows by each host's own clock and cuts them into messages. */
export class HostBatches {
  readonly #cluster: Cluster;
  readonly #baseNs: bigint;
  readonly #clockErrorNs: number[];
  /** Place of each rank's host in the lists. */
  readonly #hostOf: Int32Array;
  readonly #full: PhaseBatch[] = [];
  readonly #stepsPerBatch: number | undefined;
  /** When the latest phase that never ends began, ns; NaN where there is none. */
  endlessSinceNs = Number.NaN;
  readonly #endless: { readonly rank: number; readonly startNs: number; readonly facts: RowFacts }[] = [];
  #writers: RowWriter[] = [];
  #long: LongStep | undefined;
  #steps = 0;
  /** Start of the oldest row that waits, and end of the newest. */
  #waitsFrom = Number.POSITIVE_INFINITY;
  #newestEnd = 0;

  constructor(cluster: Cluster, seed: number, baseNs: bigint, stepsPerBatch: number | undefined) {
    this.#cluster = cluster;
    this.#baseNs = baseNs;
    this.#stepsPerBatch = stepsPerBatch;
    this.#clockErrorNs = cluster.hosts.map((host) => clockErrorNs(seed, host));
    this.#hostOf = Int32Array.from({ length: cluster.size }, (_, rank) => cluster.hosts.indexOf(cluster.hostOf(rank)));
    this.startRun('1');
  }

  /** From now on rows are those of another attempt of the job. */
  startRun(run: string): void {
    this.#cut();
    this.#writers = this.#cluster.hosts.map((host) => new RowWriter(this.#cluster.metaOf(host, run), this.#baseNs));
  }

  /** A phase of `rank` from `startNs` to `endNs`, counted from the run's base. */
  add(rank: number, startNs: number, endNs: number, facts: RowFacts): void {
    const start = Math.round(startNs);
    this.addSummed(rank, start, Math.round(endNs) - start, facts);
  }

  /** Phases of a step summed into one row: `durNs` may be less than the time until the last of them ended. */
  addSummed(rank: number, startNs: number, durNs: number, facts: RowFacts): void {
    if (this.#long) this.#long.add(rank, Math.round(startNs), Math.round(durNs), facts);
    else this.#write(rank, Math.round(startNs), Math.round(durNs), facts);
  }

  /** A phase that has begun and never ends. */
  addEndless(rank: number, startNs: number, facts: RowFacts): void {
    this.#endless.push({ rank, startNs, facts: openFacts(facts) });
    this.endlessSinceNs = Math.max(startNs, Number.isNaN(this.endlessSinceNs) ? startNs : this.endlessSinceNs);
  }

  /** Reports what never ends as it stands at `atNs`. */
  heartbeat(atNs: number): void {
    for (const { rank, startNs, facts } of this.#endless) this.add(rank, startNs, atNs, facts);
    this.#cut();
  }

  /** Until `endLong` rows are kept, to be put in order of time; what lasts is reported open every `everyNs`. */
  beginLong(everyNs: number): void {
    this.#long = new LongStep(everyNs);
  }

  endLong(): void {
    const long = this.#long;
    this.#long = undefined;
    long?.play(
      (rank, start, dur, facts) => this.#write(rank, start, dur, facts),
      () => this.#cut(),
    );
  }

  /** Messages that are due after a step, in the order in which the hosts filled them. */
  endStep(): PhaseBatch[] {
    this.#steps++;
    const due =
      this.#stepsPerBatch === undefined
        ? this.#newestEnd - this.#waitsFrom >= LONGEST_NS ||
          this.#writers.some((writer) => writer.length >= TARGET_ROWS)
        : this.#steps % this.#stepsPerBatch === 0;
    if (due) this.#cut();
    return this.#full.splice(0);
  }

  /** Everything that is left, at the end of the run. */
  flush(): PhaseBatch[] {
    this.#cut();
    return this.#full.splice(0);
  }

  #write(rank: number, start: number, dur: number, facts: RowFacts): void {
    const host = this.#hostOf[rank] as number;
    const writer = this.#writers[host] as RowWriter;
    writer.add(rank, start + (this.#clockErrorNs[host] as number), dur, facts);
    if (start < this.#waitsFrom) this.#waitsFrom = start;
    if (start + dur > this.#newestEnd) this.#newestEnd = start + dur;
    if (writer.length === MESSAGE_ROWS) this.#full.push(writer.take());
  }

  #cut(): void {
    for (const writer of this.#writers) if (writer.length > 0) this.#full.push(writer.take());
    this.#waitsFrom = Number.POSITIVE_INFINITY;
  }
}
