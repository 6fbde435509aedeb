import type { PhaseBatch } from '../protocol/phase-batch.js';
import type { Cluster } from './cluster.js';
import { NOISE } from './measured.js';
import { Random } from './random.js';
import { MESSAGE_ROWS, type RowFacts, RowWriter } from './row-writer.js';

/** A message aims at this many rows; a fixed cost of decoding makes smaller ones dear. */
const TARGET_ROWS = 1000;

/** The collectors of a job's hosts: stamps rows by each host's own clock and cuts them into messages. */
export class HostBatches {
  readonly #writers: RowWriter[];
  readonly #clockErrorNs: number[];
  /** Place of each rank's host in the lists above. */
  readonly #hostOf: Int32Array;
  readonly #full: PhaseBatch[] = [];
  readonly #stepsPerBatch: number | undefined;
  #steps = 0;

  constructor(cluster: Cluster, seed: number, baseNs: bigint, stepsPerBatch: number | undefined) {
    this.#stepsPerBatch = stepsPerBatch;
    this.#writers = cluster.hosts.map((host) => new RowWriter(cluster.metaOf(host), baseNs));
    this.#clockErrorNs = cluster.hosts.map((host) =>
      Math.round(NOISE.hostClockNs * (2 * Random.stream(seed, host, 'clock').uniform() - 1)),
    );
    this.#hostOf = Int32Array.from({ length: cluster.size }, (_, rank) => cluster.hosts.indexOf(cluster.hostOf(rank)));
  }

  /** A phase of `rank` from `startNs` to `endNs`, counted from the run's base. */
  add(rank: number, startNs: number, endNs: number, facts: RowFacts): void {
    const start = Math.round(startNs);
    this.addSummed(rank, start, Math.round(endNs) - start, facts);
  }

  /** Phases of a step summed into one row: `durNs` may be less than the time until the last of them ended. */
  addSummed(rank: number, startNs: number, durNs: number, facts: RowFacts): void {
    const host = this.#hostOf[rank] as number;
    const writer = this.#writers[host] as RowWriter;
    const start = Math.round(startNs) + (this.#clockErrorNs[host] as number);
    writer.add(rank, start, Math.round(durNs), facts);
    if (writer.length === MESSAGE_ROWS) this.#full.push(writer.take());
  }

  /** Messages that are due after a step, in the order in which the hosts filled them. */
  endStep(): PhaseBatch[] {
    this.#steps++;
    const due =
      this.#stepsPerBatch === undefined
        ? this.#writers.some((writer) => writer.length >= TARGET_ROWS)
        : this.#steps % this.#stepsPerBatch === 0;
    return due ? this.flush() : this.#full.splice(0);
  }

  /** Everything that is left, at the end of the run. */
  flush(): PhaseBatch[] {
    const rest = this.#writers.filter((writer) => writer.length > 0).map((writer) => writer.take());
    return [...this.#full.splice(0), ...rest];
  }
}
