import type { Cluster } from '../cluster.js';
import { tensorGroup } from '../communicators.js';
import { type Fault, strengthOf, transferFactor } from '../faults.js';
import { NOISE } from '../measured.js';
import { EAGER, SERVING } from '../measured-serving.js';
import type { Traffic } from '../network/traffic.js';
import { Random } from '../random.js';
import type { TransferPace } from '../transfer-pace.js';
import { NOMINAL_STEP_NS } from './cost.js';
import { HostPace } from './host-pace.js';
import type { Load } from './load.js';
import type { StepSums, Sums } from './sums.js';

export interface LayersParts {
  readonly seed: number;
  readonly cluster: Cluster;
  readonly faults: readonly Fault[];
  readonly traffic: Traffic | undefined;
  /** When each rank can begin its next phase, ns from the run's base; infinite: never. */
  readonly free: Float64Array;
  /** By rank. */
  readonly random: readonly Random[];
  readonly transferPace: TransferPace;
  /** For what a job's ranks share. */
  readonly shared: Random;
  readonly scale: number;
  /** How many layers are played; where fewer than there are, each stands for several. */
  readonly layers: number;
}

/** How the slower rank's pace falls on a phase and the gap after it, and on an all-reduce; of one of `2 x layers`. */
const GAP_SHARE = 1 - EAGER.attentionShare - EAGER.mlpShare - EAGER.allReduceShare;

interface Phase {
  readonly sums: Sums;
  readonly stallNs: number;
  readonly white: number;
  readonly issueShare: number;
  /** By rank of the replica. */
  readonly nominalNs: readonly number[];
  /** How late each rank's next launch is. */
  readonly lateNs: readonly number[];
}

/** Plays the layers of a replica's step: attention, all-reduce, mlp, all-reduce, on all its ranks. */
export class Layers {
  readonly #parts: LayersParts;
  readonly #pace: HostPace[];
  /** Constant log factors of each GPU by graph: attention, mlp. */
  readonly #offsets = new Map<number, (readonly [number, number])[]>();
  /** When each rank's host has launched what it has launched of an eager step, ns. */
  readonly #issued: Float64Array;

  constructor(parts: LayersParts) {
    const { seed, cluster } = parts;
    this.#parts = parts;
    this.#pace = parts.random.map((_, rank) => new HostPace(Random.stream(seed, cluster.job, 'pace', rank)));
    this.#issued = new Float64Array(cluster.size);
  }

  play(replica: number, load: Load, step: number, sums: StepSums): void {
    const { free, layers, cluster, faults, scale } = this.#parts;
    const ranks = ranksOf(cluster, replica);
    const paces = ranks.map((rank) => (load.paceNs > 0 ? load.paceNs * (this.#pace[rank] as HostPace).next() : 0));
    for (const rank of ranks) this.#issued[rank] = free[rank] as number;
    const fewer = Math.sqrt(layers / SERVING.layers);
    const transferNs = this.#transferNs(replica, load, step) / (2 * layers);
    const phases = (['attention', 'mlp'] as const).map((name, i) => ({
      sums: sums[name],
      white: (i === 0 ? SERVING.attentionWhite : SERVING.mlpWhite) * fewer,
      issueShare: (i === 0 ? EAGER.attentionShare : EAGER.mlpShare) / layers,
      stallNs: i === 0 ? load.stallNs : 0,
      nominalNs: ranks.map((rank) => this.#nominalNs(rank, load, i as 0 | 1, step) / layers),
      lateNs: ranks.map((rank) => (strengthOf(faults, 'launch', rank, step) * NOMINAL_STEP_NS * scale) / (2 * layers)),
    }));
    for (let layer = 0; layer < layers; layer++)
      for (const phase of phases) {
        this.#compute(ranks, paces, layer === 0 ? phase : { ...phase, stallNs: 0 });
        sums.transferNs[replica] =
          (sums.transferNs[replica] as number) + this.#allReduce(ranks, paces, transferNs, fewer, sums.all_reduce);
      }
  }

  #nominalNs(rank: number, load: Load, phase: 0 | 1, step: number): number {
    const nominal = phase === 0 ? load.attentionNs : load.mlpNs;
    const offset = (this.#offset(load.graph)[rank] as readonly [number, number])[phase];
    return nominal * Math.exp(offset) * (1 + strengthOf(this.#parts.faults, 'compute', rank, step));
  }

  #offset(graph: number): readonly (readonly [number, number])[] {
    const { seed, cluster } = this.#parts;
    let offsets = this.#offsets.get(graph);
    if (!offsets) {
      offsets = Array.from({ length: cluster.size }, (_, rank) => {
        const random = Random.stream(seed, cluster.job, 'gpu', graph, rank);
        return [SERVING.gpuSpread * random.normal(), SERVING.gpuSpread * random.normal()] as const;
      });
      this.#offsets.set(graph, offsets);
    }
    return offsets;
  }

  /** The transfers of a step's all-reduces without noise, and their bytes on the wire. */
  #transferNs(replica: number, load: Load, step: number): number {
    const { faults, traffic, cluster, transferPace } = this.#parts;
    if (cluster.layout.tp === 1) return 0;
    const group = tensorGroup(0, replica);
    const bytes = messageBytes(load);
    traffic?.collective('all_reduce', cluster.group(group), bytes * 2 * SERVING.layers);
    return load.allReduceNs * transferFactor(faults, group, bytes, step) * transferPace.factor(group, bytes);
  }

  /** A phase of every rank: as long as the GPU works, or until the host has launched it all. */
  #compute(ranks: readonly number[], paces: readonly number[], phase: Phase): void {
    const { free, random, layers } = this.#parts;
    for (const [i, rank] of ranks.entries()) {
      const start = free[rank] as number;
      const work =
        (phase.nominalNs[i] as number) * Math.exp(phase.white * (random[rank] as Random).normal()) + phase.stallNs;
      const launched = this.#issue(rank, (paces[i] as number) * phase.issueShare);
      const end = Math.max(start + work, launched);
      phase.sums.add(rank, start, end - start, work);
      const next = this.#issue(rank, ((paces[i] as number) * GAP_SHARE) / (2 * layers));
      free[rank] =
        Math.max(end + SERVING.layerGapNs * (SERVING.layers / layers / 2), next) + (phase.lateNs[i] as number);
    }
  }

  /** One all-reduce of the ranks; returns its transfer, the shortest of their durations, ns. */
  #allReduce(
    ranks: readonly number[],
    paces: readonly number[],
    transferNs: number,
    fewer: number,
    sums: Sums,
  ): number {
    const { free, random, shared, layers } = this.#parts;
    if (ranks.length === 1) return 0;
    let last = 0;
    for (const [i, rank] of ranks.entries()) {
      const launched = this.#issue(rank, ((paces[i] as number) * EAGER.allReduceShare) / (2 * layers));
      last = Math.max(last, free[rank] as number, launched);
    }
    const transfer = transferNs * Math.exp(SERVING.transferWhite * fewer * shared.normal());
    let shortest = Number.POSITIVE_INFINITY;
    for (const rank of ranks) {
      const start = free[rank] as number;
      const stop = last + transfer + NOISE.collectiveEndNs * (random[rank] as Random).normal();
      sums.add(rank, start, stop - start, transfer);
      shortest = Math.min(shortest, stop - start);
      free[rank] = stop;
    }
    return shortest;
  }

  /** The host launches for so long; returns when it is done. */
  #issue(rank: number, ns: number): number {
    return (this.#issued[rank] = (this.#issued[rank] as number) + ns);
  }
}

/** Bytes of one all-reduce. */
export const messageBytes = (load: Load): number => (load.prefillTokens + load.decodeTokens) * SERVING.hidden * 2;

/** Ranks of a replica: its tensor parallel group. */
export function ranksOf({ layout }: Cluster, replica: number): number[] {
  return Array.from({ length: layout.tp }, (_, lane) => replica * layout.tp + lane);
}
