import { PicketError } from '../protocol/errors.js';
import { type JobMeta, newJobMeta, type RankInfo } from '../protocol/job-meta.js';
import { MAX_MESSAGE_ROWS } from '../protocol/limits.js';
import type { PhaseBatch } from '../protocol/phase-batch.js';
import { concatBatches, takeRows } from '../protocol/take-rows.js';
import { numberRepeats } from './repeats.js';

/** Rows held back while they are put in order: 200 MB, or any trace of a few hundred steps whole. */
const WINDOW_ROWS = 1_000_000;

/**
 * Turns batches in any order into messages as live collectors send them: per job and run in step order, one host each,
 * at most MAX_MESSAGE_ROWS rows, no host more than one message ahead. Within a step rows keep their order.
 * Holds at most `windowRows` rows; files larger than that must be in order to within the window.
 */
export class StepOrder {
  readonly #windowRows: number;
  readonly #runs = new Map<string, RunWindow>();
  #held = 0;

  constructor(windowRows = WINDOW_ROWS) {
    this.#windowRows = windowRows;
  }

  /** Takes a batch; returns the messages that no longer fit into the window. */
  push(batch: PhaseBatch): PhaseBatch[] {
    const { job, run } = batch.meta;
    const key = JSON.stringify([job, run]);
    let window = this.#runs.get(key);
    if (!window) this.#runs.set(key, (window = new RunWindow(job, run)));
    window.add(batch);
    this.#held += batch.length;
    const messages: PhaseBatch[] = [];
    while (this.#held > this.#windowRows) {
      const largest = [...this.#runs.values()].reduce((a, b) => (b.length > a.length ? b : a));
      const held = largest.length;
      messages.push(...largest.release(Math.ceil(held / 2)));
      this.#held -= held - largest.length;
    }
    return messages;
  }

  /** The rest, run by run as they first appeared. */
  *flush(): Generator<PhaseBatch> {
    for (const window of this.#runs.values()) yield* window.release(window.length);
    this.#runs.clear();
    this.#held = 0;
  }
}

/** The rows of one attempt of a job that are not sent yet. */
class RunWindow {
  length = 0;
  readonly #job: string;
  readonly #run: string;
  #batches: PhaseBatch[] = [];
  #groups: JobMeta['groups'] = {};
  readonly #hosts = new Map<string, HostFacts>();
  /** Newest step already sent, and the ranks seen until then. */
  #sent: { step: number; ranks: Set<number> } | undefined;

  constructor(job: string, run: string) {
    this.#job = job;
    this.#run = run;
  }

  add(batch: PhaseBatch): void {
    const { host, groups, ranks, ...facts } = batch.meta;
    this.#groups = { ...this.#groups, ...groups };
    let known = this.#hosts.get(host);
    if (!known) this.#hosts.set(host, (known = { facts, ranks: new Map() }));
    known.facts = { ...known.facts, ...facts };
    for (const info of ranks) known.ranks.set(info.rank, { ...known.ranks.get(info.rank), ...info });
    if (this.#sent) this.#checkLateRanks(batch, this.#sent);
    this.#batches.push(batch);
    this.length += batch.length;
  }

  /** Sends at least the first `count` rows in step order, and whole steps. */
  release(count: number): PhaseBatch[] {
    const [first, ...others] = this.#batches;
    if (!first) return [];
    const all = concatBatches([first, ...others]);
    const order = stepOrder(all);
    const end = endOfStep(all, order, count);
    const [now, later] = [order.subarray(0, end), order.subarray(end)];
    numberRepeats(all, now);
    const hosts = this.#batches.flatMap((batch) => new Array<string>(batch.length).fill(batch.meta.host));
    const messages = this.#messages(all, now, hosts);
    this.#batches = later.length === 0 ? [] : this.#byHost(all, later, hosts);
    this.length = later.length;
    this.#markSent(all, now);
    return messages;
  }

  #messages(all: PhaseBatch, rows: Uint32Array, hosts: readonly string[]): PhaseBatch[] {
    const messages: PhaseBatch[] = [];
    const rowsOf = new Map<string, number>();
    let from = 0;
    for (let i = 0; i < rows.length; i++) {
      const host = hosts[rows[i] as number] as string;
      const length = (rowsOf.get(host) ?? 0) + 1;
      rowsOf.set(host, length);
      if (length < MAX_MESSAGE_ROWS && i < rows.length - 1) continue;
      messages.push(...this.#byHost(all, rows.subarray(from, i + 1), hosts));
      from = i + 1;
      rowsOf.clear();
    }
    return messages;
  }

  #byHost(all: PhaseBatch, rows: Uint32Array, hosts: readonly string[]): PhaseBatch[] {
    const rowsOf = new Map<string, number[]>();
    for (const row of rows) {
      const host = hosts[row] as string;
      const own = rowsOf.get(host);
      if (own) own.push(row);
      else rowsOf.set(host, [row]);
    }
    return [...rowsOf].map(([host, own]) => ({ ...takeRows(all, Uint32Array.from(own)), meta: this.#metaOf(host) }));
  }

  #metaOf(host: string): JobMeta {
    const known = this.#hosts.get(host);
    const ranks = [...(known?.ranks.values() ?? [])].sort((a, b) => a.rank - b.rank);
    return newJobMeta(this.#job, { ...known?.facts, run: this.#run, host, groups: this.#groups, ranks });
  }

  #markSent(all: PhaseBatch, rows: Uint32Array): void {
    this.#sent ??= { step: 0, ranks: new Set() };
    if (rows.length > 0) this.#sent.step = all.columns.step.number(rows[rows.length - 1] as number);
    for (const rank of all.columns.rank) this.#sent.ranks.add(rank);
  }

  /** A rank that first comes when others are far ahead would be taken for one that hangs. */
  #checkLateRanks({ columns, length }: PhaseBatch, sent: { step: number; ranks: Set<number> }): void {
    for (let i = 0; i < length; i++) {
      const rank = columns.rank[i] as number;
      if (sent.ranks.has(rank) || columns.step.number(i) >= sent.step) continue;
      throw new PicketError(
        'bad_input',
        `rows of rank ${rank} of job "${this.#job}" begin after step ${sent.step} of other ranks`,
        { remedy: 'sort the file by step, or give each rank a file of its own' },
      );
    }
  }
}

interface HostFacts {
  facts: Partial<JobMeta>;
  readonly ranks: Map<number, RankInfo>;
}

/** Row numbers by step, rows of one step in their order. */
function stepOrder({ columns, length }: PhaseBatch): Uint32Array {
  const order = Uint32Array.from({ length }, (_, i) => i);
  const steps = Float64Array.from(order, (i) => columns.step.number(i));
  if (steps.every((step, i) => i === 0 || step >= (steps[i - 1] as number))) return order;
  return order.sort((a, b) => (steps[a] as number) - (steps[b] as number) || a - b);
}

/** Where the step of the row before `count` ends in the order. */
function endOfStep({ columns }: PhaseBatch, order: Uint32Array, count: number): number {
  const stepAt = (i: number) => columns.step.number(order[i] as number);
  let end = count;
  while (end < order.length && stepAt(end) === stepAt(end - 1)) end++;
  return end;
}
