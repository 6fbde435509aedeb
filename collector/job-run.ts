import { isDeepStrictEqual } from 'node:util';
import type { JobMeta, RankInfo } from '../protocol/job-meta.js';
import { type PhaseBatch, PhaseBatchBuilder } from '../protocol/phase-batch.js';
import { ranksOfGroup } from './group-ranks.js';
import type { PhaseKey, PhaseTable } from './phase-table.js';
import type { OpenPhase } from './segment-pipeline.js';
import { pushOpenRow, pushStepRows, type RankStep, type RowOptions } from './step-rows.js';
import { transferOf } from './transfer.js';

/** A step waits so long for the other ranks of its groups, so that their shortest collectives are known. */
const HOLD_MS = 10_000;
/** Steps that are kept for a rank that gets more of one, and the most that may wait. */
const KEPT_STEPS = 8;
const MAX_STEPS = 8192;

export type JobRunOptions = Pick<RowOptions, 'epochBase' | 'clockLimitNs' | 'layerDetail'>;

/** What the ranks of this host have sent of one step. */
interface StepOfRanks {
  readonly byRank: Map<number, RankStep>;
  /** By key and microbatch. */
  readonly transfers: Map<string, number>;
  waiting: number;
}

interface Waiting {
  readonly rankStep: RankStep;
  readonly all: StepOfRanks;
  /** Ranks of this host that took part in its collectives. */
  readonly peers: readonly number[];
  readonly sinceMs: number;
}

/**
 * One job and run on this host: holds steps until the local ranks of their groups have them, splits the collectives of
 * groups that are wholly on this host into transfer and wait, and makes rows. Ranks keep the order of their steps.
 */
export class JobRun {
  readonly meta: JobMeta;
  readonly #options: JobRunOptions;
  readonly #builder: PhaseBatchBuilder;
  readonly #steps = new Map<number, StepOfRanks>();
  readonly #queues = new Map<number, Waiting[]>();
  readonly #live = new Set<number>();
  /** rank -> the last step that it has delivered */
  readonly #progress = new Map<number, number>();
  readonly #ambiguous = new Set<string>();
  #localGroups = new Set<string>();
  /** Keys of each table that were looked at. */
  readonly #learned = new WeakMap<PhaseTable, number>();
  /** When the oldest row in the builder was made. */
  #oldestMs = 0;
  #urgent = false;

  /** @param meta facts of the job; the ranks of this host and their groups are added by `join` */
  constructor(meta: JobMeta, options: JobRunOptions) {
    this.meta = meta;
    this.#options = options;
    this.#builder = new PhaseBatchBuilder(meta);
  }

  /** Ranks from which more may come. */
  get live(): ReadonlySet<number> {
    return this.#live;
  }

  /** Nothing will come any more and nothing waits. */
  get over(): boolean {
    return this.#live.size === 0 && this.#queues.size === 0 && this.#builder.length === 0;
  }

  /**
   * A rank of this host takes part. Returns the groups that other ranks know as other ones: their collectives do not
   * belong together, so nothing is made of them.
   */
  join(info: RankInfo, groups: JobMeta['groups']): string[] {
    const { meta } = this;
    this.#live.add(info.rank);
    const ambiguous = Object.keys(groups).filter(
      (name) => name in meta.groups && !isDeepStrictEqual(meta.groups[name], groups[name]),
    );
    for (const name of ambiguous) this.#ambiguous.add(name);
    Object.assign(meta.groups, groups);
    meta.ranks = [...meta.ranks.filter(({ rank }) => rank !== info.rank), info].sort((a, b) => a.rank - b.rank);
    this.#findLocalGroups();
    return ambiguous;
  }

  /** Nothing comes from the rank any more: nobody waits for it. */
  leave(rank: number): void {
    this.#live.delete(rank);
  }

  /** Takes in a step whose phases are there, or one again that has got more of them. */
  deliver(rankStep: RankStep, nowMs: number): void {
    this.#learnGroups(rankStep.table);
    const all = this.#stepOf(rankStep.step.number);
    this.#progress.set(rankStep.rank, rankStep.step.number);
    all.byRank.set(rankStep.rank, rankStep);
    all.transfers.clear();
    const waiting = { rankStep, all, peers: this.#peersOf(rankStep), sinceMs: nowMs };
    const queue = this.#queues.get(rankStep.rank);
    if (!queue && waiting.peers.length === 0) this.#push(waiting, nowMs);
    else {
      all.waiting++;
      if (queue) queue.push(waiting);
      else this.#queues.set(rankStep.rank, [waiting]);
    }
  }

  /** Phases of a rank that last; they do not wait for anything. */
  deliverOpen(rank: number, phases: readonly OpenPhase[], now: number, nowMs: number): void {
    for (const phase of phases) {
      this.#touch(nowMs);
      pushOpenRow(this.#builder, rank, phase, now, this.#options.epochBase);
      this.#urgent = true;
    }
  }

  /** Makes the rows of steps that wait for nobody any more. */
  release(nowMs: number): void {
    for (const [rank, queue] of this.#queues) {
      let ready = 0;
      for (const waiting of queue) {
        if (!this.#isReady(waiting, nowMs)) break;
        this.#push(waiting, nowMs);
        waiting.all.waiting--;
        ready++;
      }
      if (ready === queue.length) this.#queues.delete(rank);
      else queue.splice(0, ready);
    }
  }

  /** The rows so far, once there are enough of them or the oldest is old enough, or in any case. */
  take(nowMs: number, due: { batch_rows: number; batch_ms: number }, anyCase: boolean): PhaseBatch | undefined {
    const rows = this.#builder.length;
    const isDue = anyCase || this.#urgent || rows >= due.batch_rows || nowMs - this.#oldestMs >= due.batch_ms;
    if (rows === 0 || !isDue) return undefined;
    this.#urgent = false;
    return this.#builder.take();
  }

  /** Names of groups may tell their ranks. */
  #learnGroups(table: PhaseTable): void {
    const known = this.#learned.get(table) ?? 0;
    if (known === table.keys.length) return;
    for (const { group } of table.keys.slice(known)) {
      const ranks = ranksOfGroup(group);
      if (ranks) this.meta.groups[group] ??= ranks;
    }
    this.#learned.set(table, table.keys.length);
    this.#findLocalGroups();
  }

  #findLocalGroups(): void {
    const { groups, ranks } = this.meta;
    const here = new Set(ranks.map(({ rank }) => rank));
    const local = Object.keys(groups).filter((name) => groups[name]?.every((rank) => here.has(rank)));
    this.#localGroups = new Set(local.filter((name) => !this.#ambiguous.has(name)));
  }

  #stepOf(number: number): StepOfRanks {
    let all = this.#steps.get(number);
    if (!all) {
      for (const [oldest, { waiting }] of this.#steps) {
        if (this.#steps.size < KEPT_STEPS || waiting > 0) break;
        this.#steps.delete(oldest);
      }
      this.#steps.set(number, (all = { byRank: new Map(), transfers: new Map(), waiting: 0 }));
    }
    return all;
  }

  #isReady({ rankStep, all, peers, sinceMs }: Waiting, nowMs: number): boolean {
    if (nowMs - sinceMs >= HOLD_MS || this.#steps.size > MAX_STEPS) return true;
    // A peer that was as far has sent its share before anybody waited for it, and sends none again.
    const isPast = (rank: number): boolean => (this.#progress.get(rank) ?? -1) >= rankStep.step.number;
    return peers.every((rank) => all.byRank.has(rank) || isPast(rank) || !this.#live.has(rank));
  }

  #peersOf({ rank, step, table }: RankStep): number[] {
    const peers = new Set<number>();
    for (const { sums } of step.parts.values())
      sums.items.forEach((_, index) => {
        const { group, blocking } = table.keys[index] as PhaseKey;
        if (blocking && this.#localGroups.has(group)) for (const peer of this.meta.groups[group] ?? []) peers.add(peer);
      });
    peers.delete(rank);
    return [...peers];
  }

  #push({ rankStep, all }: Pick<Waiting, 'rankStep' | 'all'>, nowMs: number): void {
    this.#touch(nowMs);
    pushStepRows(this.#builder, rankStep, {
      ...this.#options,
      isLocal: (group) => this.#localGroups.has(group),
      transferOf: (key, microbatch) => this.#transferOf(all, key, microbatch),
    });
  }

  #transferOf({ byRank, transfers }: StepOfRanks, key: PhaseKey, microbatch: number): number {
    const name = `${key.text}\0${microbatch}`;
    let transfer = transfers.get(name);
    if (transfer === undefined)
      transfers.set(name, (transfer = transferOf(key, microbatch, this.meta.groups[key.group] ?? [], byRank)));
    return transfer;
  }

  #touch(nowMs: number): void {
    if (this.#builder.length === 0) this.#oldestMs = nowMs;
  }
}
