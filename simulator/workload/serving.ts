import { KIND } from '../../protocol/vocabulary.js';
import { type Cluster, tensorGroup } from '../cluster.js';
import { type Fault, strengthOf } from '../faults.js';
import type { HostBatches } from '../host-batches.js';
import { NOISE, PREFILL, SERVING } from '../measured.js';
import { Random } from '../random.js';
import type { RowFacts } from '../row-writer.js';

/** A step's nominal load; sums over all layers, ns. */
interface Load {
  readonly graph: number;
  readonly attentionNs: number;
  readonly mlpNs: number;
  readonly allReduceNs: number;
  readonly prefillTokens: number;
  /** A pause that all ranks of a prefill share. */
  readonly stallNs: number;
  readonly request: string;
}

/** Sum, longest and start of a rank's phases of one name in a step. */
class Sums {
  readonly total: Float64Array;
  readonly longest: Float64Array;
  readonly first: Float64Array;

  constructor(ranks: number) {
    this.total = new Float64Array(ranks);
    this.longest = new Float64Array(ranks);
    this.first = new Float64Array(ranks).fill(Number.NaN);
  }

  add(rank: number, startNs: number, durNs: number): void {
    if (Number.isNaN(this.first[rank])) this.first[rank] = startNs;
    this.total[rank] = (this.total[rank] as number) + durNs;
    this.longest[rank] = Math.max(this.longest[rank] as number, durNs);
  }
}

interface StepSums {
  readonly attention: Sums;
  readonly mlp: Sums;
  readonly all_reduce: Sums;
  transferNs: number;
}

interface LayerNs {
  readonly attention: number;
  readonly mlp: number;
}

/** One engine: a tensor parallel group that decodes batches under CUDA graphs, with some eager prefills between. */
export class Serving {
  readonly #cluster: Cluster;
  readonly #faults: readonly Fault[];
  readonly #rows: HostBatches;
  readonly #load: Random;
  readonly #rank: Random[];
  /** Constant log factor of each GPU by bucket: attention, mlp. */
  readonly #offsets: Map<number, [number, number][]>;
  readonly #free: Float64Array;
  #requests = 0;

  constructor(seed: number, cluster: Cluster, faults: readonly Fault[], rows: HostBatches) {
    this.#cluster = cluster;
    this.#faults = faults;
    this.#rows = rows;
    const stream = (...labels: (string | number)[]): Random => Random.stream(seed, cluster.job, ...labels);
    const byRank = <T>(make: (rank: number) => T): T[] => Array.from({ length: cluster.size }, (_, rank) => make(rank));
    this.#load = stream('load');
    this.#rank = byRank((rank) => stream('serving', rank));
    this.#offsets = new Map(
      [0, ...SERVING.buckets.map((bucket) => bucket.graph)].map((graph) => [
        graph,
        byRank((rank) => {
          const random = stream('gpu', graph, rank);
          return [SERVING.gpuSpread * random.normal(), SERVING.gpuSpread * random.normal()];
        }),
      ]),
    );
    this.#free = new Float64Array(cluster.size);
  }

  /** Plays one step and adds its rows. */
  step(step: number): void {
    const load = this.#draw();
    const size = this.#cluster.size;
    for (let rank = 0; rank < size; rank++) this.#launch(rank, step);
    const starts = Float64Array.from(this.#free);
    const sums: StepSums = {
      attention: new Sums(size),
      mlp: new Sums(size),
      all_reduce: new Sums(size),
      transferNs: 0,
    };
    this.#playLayers(load, sums);
    this.#emit(step, load, starts, sums);
  }

  #draw(): Load {
    const random = this.#load;
    const prefills = random.uniform() < PREFILL.share;
    const size = random.below(PREFILL.tokens.length);
    const stalls = random.uniform() < PREFILL.stallRate;
    const stallNs = PREFILL.stallMinNs + (PREFILL.stallMaxNs - PREFILL.stallMinNs) * random.uniform();
    const bucket = SERVING.buckets[random.below(SERVING.buckets.length)] as (typeof SERVING.buckets)[number];
    if (!prefills) return { ...bucket, prefillTokens: 0, stallNs: 0, request: '' };
    return {
      graph: 0,
      attentionNs: PREFILL.attentionNs[size] as number,
      mlpNs: PREFILL.mlpNs[size] as number,
      allReduceNs: PREFILL.allReduceNs[size] as number,
      prefillTokens: PREFILL.tokens[size] as number,
      stallNs: stalls ? stallNs : 0,
      request: `req-${this.#requests++}`,
    };
  }

  /** Host work between two steps, then the launch. */
  #launch(rank: number, step: number): void {
    const random = this.#rank[rank] as Random;
    const begin = this.#free[rank] as number;
    const late = strengthOf(this.#faults, 'host', rank, step) * NOMINAL_STEP_NS;
    const gap = SERVING.hostGapNs * Math.exp(SERVING.hostGapSpread * random.normal()) + late;
    const launch = SERVING.launchNs * Math.exp(SERVING.launchSpread * random.normal());
    this.#rows.add(rank, begin, begin + gap, { step, phase: 'host_gap', kind: KIND.host });
    this.#free[rank] = begin + gap + launch;
  }

  #playLayers(load: Load, sums: StepSums): void {
    const nominal = this.#rank.map((random, rank) => this.#layerNs(load, rank, random));
    for (let layer = 0; layer < SERVING.layers; layer++)
      for (const phase of ['attention', 'mlp'] as const) {
        const white = phase === 'attention' ? SERVING.attentionWhite : SERVING.mlpWhite;
        const stall = layer === 0 && phase === 'attention' ? load.stallNs : 0;
        for (const [rank, random] of this.#rank.entries()) {
          const duration = (nominal[rank] as LayerNs)[phase] * Math.exp(white * random.normal()) + stall;
          const start = this.#free[rank] as number;
          sums[phase].add(rank, start, duration);
          this.#free[rank] = start + duration + SERVING.layerGapNs / 2;
        }
        sums.transferNs += this.#allReduce(load.allReduceNs / (2 * SERVING.layers), sums.all_reduce);
      }
  }

  /** What a layer takes on a rank without white noise: its GPU's speed and, launched eagerly, its host's. */
  #layerNs(load: Load, rank: number, random: Random): LayerNs {
    const [attention, mlp] = (this.#offsets.get(load.graph) as [number, number][])[rank] as [number, number];
    let excess = 0;
    let share = 0;
    if (load.graph === 0) {
      const bound = PREFILL.launchBoundNs * Math.exp(PREFILL.launchBoundSpread * random.normal());
      excess = Math.max(0, bound - load.attentionNs - load.mlpNs - load.allReduceNs);
      share = random.uniform();
    }
    return {
      attention: ((load.attentionNs + excess * share) / SERVING.layers) * Math.exp(attention),
      mlp: ((load.mlpNs + excess * (1 - share)) / SERVING.layers) * Math.exp(mlp),
    };
  }

  /** One all-reduce of the group; returns its transfer, the shortest of the ranks' durations, ns. */
  #allReduce(nominalNs: number, sums: Sums): number {
    let last = 0;
    for (const free of this.#free) last = Math.max(last, free);
    if (this.#cluster.size === 1) return 0;
    const end = last + nominalNs * Math.exp(SERVING.transferWhite * this.#load.normal());
    let shortest = Number.POSITIVE_INFINITY;
    for (let rank = 0; rank < this.#cluster.size; rank++) {
      const start = this.#free[rank] as number;
      const stop = end + NOISE.collectiveEndNs * (this.#rank[rank] as Random).normal();
      sums.add(rank, start, stop - start);
      shortest = Math.min(shortest, stop - start);
      this.#free[rank] = stop;
    }
    return shortest;
  }

  #emit(step: number, load: Load, starts: Float64Array, sums: StepSums): void {
    const { graph, prefillTokens, request } = load;
    const shape = {
      step,
      graph,
      batch: graph > 0 ? graph : 1,
      prefill_tokens: prefillTokens,
      decode_tokens: graph,
      context_tokens: graph > 0 ? graph * SERVING.contextTokens : prefillTokens,
      request,
    };
    const layers = SERVING.layers;
    this.#addSums(sums.attention, { ...shape, phase: 'attention', kind: KIND.compute, count: layers });
    this.#addSums(sums.mlp, { ...shape, phase: 'mlp', kind: KIND.compute, count: layers });
    if (this.#cluster.size > 1)
      this.#addSums(sums.all_reduce, {
        ...shape,
        phase: 'all_reduce',
        kind: KIND.comm,
        op: 'all_reduce',
        group: tensorGroup(0, 0),
        seq: step,
        count: 2 * layers,
        bytes: 2 * layers * (prefillTokens + graph) * SERVING.hidden * 2,
        transfer_ns: Math.round(sums.transferNs),
      });
    const whole = { ...shape, phase: 'step', kind: KIND.step };
    for (const [rank, start] of starts.entries()) this.#rows.add(rank, start, this.#free[rank] as number, whole);
  }

  /** One row a rank; the same facts serve all of them but for the longest. */
  #addSums({ first, total, longest }: Sums, facts: RowFacts): void {
    for (const [rank, start] of first.entries()) {
      facts.max_ns = Math.round(longest[rank] as number);
      this.#rows.addSummed(rank, start, total[rank] as number, facts);
    }
  }
}

/** A decode step at bucket 8, in ns: what delays are measured against. */
const NOMINAL_STEP_NS = SERVING.buckets[1].attentionNs + SERVING.buckets[1].mlpNs + SERVING.buckets[1].allReduceNs;
