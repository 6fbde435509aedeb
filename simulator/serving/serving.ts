import { KIND } from '../../protocol/vocabulary.js';
import type { Cluster } from '../cluster.js';
import { dataGroup, tensorGroup } from '../communicators.js';
import { activeFault, type Fault, lateness } from '../faults.js';
import { EVENTS, NOISE } from '../measured.js';
import { ENGINE, SERVING } from '../measured-serving.js';
import type { Traffic } from '../network/traffic.js';
import { collectiveEnd } from '../propagation/collective.js';
import { Random } from '../random.js';
import type { HostBatches } from '../rows/host-batches.js';
import type { RowFacts } from '../rows/row-writer.js';
import type { ServingSpec } from '../scenario.js';
import { TransferPace } from '../transfer-pace.js';
import { decodeShape, NOMINAL_STEP_NS, stepCost } from './cost.js';
import { Layers, ranksOf } from './layers.js';
import type { Load, LoadSource } from './load.js';
import { ServingRows } from './serving-rows.js';
import { StepSums } from './sums.js';

export interface ServingParts {
  readonly seed: number;
  readonly spec: ServingSpec;
  readonly cluster: Cluster;
  readonly faults: readonly Fault[];
  readonly source: LoadSource;
  readonly rows: HostBatches;
  readonly traffic: Traffic | undefined;
  /** How much larger the model is than the recorded one. */
  readonly scale: number;
  /** One row a step instead of one a phase. */
  readonly whole: boolean;
  readonly hangSeconds?: number | undefined;
}

/** How often a collector reports what is open. */
const REPORT_NS = 1e9;

/** The replicas of a job: tensor parallel groups that serve, each for itself or all in step. */
export class Serving {
  readonly #parts: ServingParts;
  readonly #random: Random[];
  readonly #pauses: Random;
  readonly #layers: Layers;
  readonly #pace: TransferPace;
  readonly #rows: ServingRows;
  readonly #free: Float64Array;
  /** When the collectors last reported on a job that hangs; NaN while it does not. */
  #reportedNs = Number.NaN;

  constructor(parts: ServingParts) {
    const { seed, cluster, faults, traffic, rows, spec, whole, scale } = parts;
    const { job, size } = cluster;
    this.#parts = parts;
    this.#free = new Float64Array(size);
    this.#random = Array.from({ length: size }, (_, rank) => Random.stream(seed, job, 'serving', rank));
    this.#pauses = Random.stream(seed, job, 'pauses');
    const shared = Random.stream(seed, job, 'transfer');
    const layers = whole ? 1 : SERVING.layers;
    this.#pace = new TransferPace(seed, job);
    this.#layers = new Layers({
      ...{ seed, cluster, faults, traffic, free: this.#free, random: this.#random, shared, layers, scale },
      transferPace: this.#pace,
    });
    this.#rows = new ServingRows({ rows, counts: spec.load === 'scheduled' });
  }

  /** When the job is, ns from the run's base. */
  get nowNs(): number {
    return Number.isNaN(this.#reportedNs) ? Math.max(...this.#free) : this.#reportedNs;
  }

  /** Another attempt: its processes start anew, after a while. */
  restart(run: string): void {
    this.#free.fill(this.nowNs + EVENTS.restartNs);
    this.#pace.startRun(run);
    this.#parts.rows.startRun(run);
  }

  /** Plays one step and adds its rows; of a job that hangs, what its collectors report meanwhile. */
  step(step: number): void {
    const { rows, cluster, faults, spec, whole } = this.#parts;
    if (!Number.isNaN(this.#reportedNs)) {
      rows.heartbeat((this.#reportedNs += REPORT_NS));
      return;
    }
    const loads = this.#loads(step);
    const hangs = activeFault(faults, 'hang', step)?.onset === step;
    if (spec.opens && hangs) rows.beginLong(REPORT_NS);
    this.#launch(step);
    const starts = Float64Array.from(this.#free);
    const sums = new StepSums(cluster.size, cluster.layout.dp);
    for (const [replica, load] of loads.entries()) this.#play(replica, load, step, sums);
    if (spec.lockstep) this.#synchronise(step);
    for (const [replica, load] of loads.entries()) {
      const ranks = ranksOf(cluster, replica);
      if (whole) this.#rows.whole(ranks, step, load, sums, starts, this.#free);
      else this.#rows.phases(replica, ranks, step, load, sums, starts, this.#free);
    }
    rows.endLong();
    this.#reportedNs = rows.endlessSinceNs;
  }

  /** What each replica does; where none has anything to do, time passes until one has. */
  #loads(step: number): Load[] {
    const { source, scale } = this.#parts;
    for (;;) {
      const loads = source.next(this.nowNs, step);
      if (loads.some((load) => load !== undefined)) return loads.map((load) => load ?? idle(scale));
      const until = source.idleUntilNs();
      for (const [rank, free] of this.#free.entries()) this.#free[rank] = Math.max(free, until);
    }
  }

  /** Host work between two steps, then the launch. */
  #launch(step: number): void {
    const { faults, rows, scale, spec, whole, cluster, hangSeconds = Number.POSITIVE_INFINITY } = this.#parts;
    const hang = activeFault(faults, 'hang', step);
    const pauses = spec.pauses && this.#pauses.uniform() < SERVING.pauseRate;
    const paused = pauses ? this.#pauses.below(cluster.size) : -1;
    for (const [rank, random] of this.#random.entries()) {
      const begin = this.#free[rank] as number;
      const late = lateness(faults, rank, step) * NOMINAL_STEP_NS * scale;
      const hangs = hang?.onset === step && hang.ranks.has(rank) ? hangSeconds * 1e9 : 0;
      const pause = rank === paused ? SERVING.pauseNs : 0;
      const gap = SERVING.hostGapNs * Math.exp(SERVING.hostGapSpread * random.normal()) + late + pause + hangs;
      const launch = SERVING.launchNs * Math.exp(SERVING.launchSpread * random.normal());
      if (gap < Number.POSITIVE_INFINITY && !whole)
        rows.add(rank, begin, begin + gap, { step, phase: 'host_gap', kind: KIND.host });
      this.#free[rank] = begin + gap + launch;
    }
  }

  #play(replica: number, load: Load, step: number, sums: StepSums): void {
    const ranks = ranksOf(this.#parts.cluster, replica);
    if (ranks.every((rank) => (this.#free[rank] as number) < Number.POSITIVE_INFINITY)) {
      this.#layers.play(replica, load, step, sums);
      return;
    }
    // The others of the group come as far as their first all-reduce.
    const group = tensorGroup(0, replica);
    for (const rank of ranks) this.#neverEnds(rank, load.attentionNs / SERVING.layers, step, group);
  }

  /** Replicas that step together agree on their batches: none goes on before the slowest has come. */
  #synchronise(step: number): void {
    const { cluster, rows } = this.#parts;
    const { dp, tp } = cluster.layout;
    for (let lane = 0; lane < tp && dp > 1; lane++) {
      const group = dataGroup(0, lane);
      const ranks = cluster.group(group);
      const end = collectiveEnd(this.#free, ranks, ENGINE.syncNs);
      for (const rank of ranks) {
        if (end === Number.POSITIVE_INFINITY) {
          this.#neverEnds(rank, 0, step, group);
          continue;
        }
        const stop = end + NOISE.collectiveEndNs * (this.#random[rank] as Random).normal();
        rows.add(rank, this.#free[rank] as number, stop, { ...reduceFacts(step, group), bytes: 8 * dp });
        this.#free[rank] = stop;
      }
    }
  }

  /** An all-reduce that a rank comes to after so long and that will not end; none if the rank is the one that never comes. */
  #neverEnds(rank: number, afterNs: number, step: number, group: string): void {
    const free = this.#free[rank] as number;
    if (free < Number.POSITIVE_INFINITY) this.#parts.rows.addEndless(rank, free + afterNs, reduceFacts(step, group));
    this.#free[rank] = Number.POSITIVE_INFINITY;
  }
}

const reduceFacts = (step: number, group: string): RowFacts => ({
  ...{ step, phase: 'all_reduce', kind: KIND.comm, op: 'all_reduce', group, seq: step },
});

/** A replica without requests goes along with an empty step. */
const idle = (scale: number): Load => ({
  ...stepCost(decodeShape(1), scale),
  ...{ prefillTokens: 0, decodeTokens: 0, contextTokens: 0, batch: 0, graph: 1, paceNs: 0, stallNs: 0, request: '' },
  state: { kv_usage: 0, running: 0, waiting: 0, preempted: 0, cached_tokens: 0, recomputed_tokens: 0 },
});
