import { PicketError } from '../protocol/errors.js';
import { type JobMeta, newJobMeta } from '../protocol/job-meta.js';

export const GPUS_PER_HOST = 8;

/** Degrees of data, tensor and pipeline parallelism; their product is the number of ranks. */
export interface Layout {
  readonly dp: number;
  readonly tp: number;
  readonly pp: number;
}

/** Where the ranks of one job sit. Ranks count tensor fastest, then data, then stages, as Megatron does. */
export class Cluster {
  readonly job: string;
  readonly layout: Layout;
  readonly size: number;
  readonly hosts: readonly string[];
  /** Communicators: name -> ranks. */
  readonly groups: ReadonlyMap<string, readonly number[]>;
  readonly #firstGpu: number;

  /** `firstGpu`: where in the fleet the job begins. Throws `bad_input` if a tensor parallel group would span hosts. */
  constructor(job: string, layout: Layout, firstGpu = 0) {
    this.job = job;
    this.layout = layout;
    this.size = layout.dp * layout.tp * layout.pp;
    this.#firstGpu = firstGpu;
    this.hosts = [...new Set(range(this.size).map((rank) => this.hostOf(rank)))];
    this.groups = this.#communicators();
  }

  rank(stage: number, dp: number, tp: number): number {
    return (stage * this.layout.dp + dp) * this.layout.tp + tp;
  }

  stageOf(rank: number): number {
    return Math.floor(rank / (this.layout.dp * this.layout.tp));
  }

  dpOf(rank: number): number {
    return Math.floor(rank / this.layout.tp) % this.layout.dp;
  }

  hostOf(rank: number): string {
    return `node-${String(this.#hostNumber(rank)).padStart(4, '0')}`;
  }

  ranksOfStage(stage: number): number[] {
    return range(this.size).filter((rank) => this.stageOf(rank) === stage);
  }

  /** Ranks of a group. Throws if the layout has no such group: a mistake of the caller. */
  group(name: string): readonly number[] {
    const ranks = this.groups.get(name);
    if (!ranks) throw new Error(`no group ${name}`);
    return ranks;
  }

  /** What the collector of a host knows: its own ranks, and the communicators that they belong to. */
  metaOf(host: string): JobMeta {
    const own = range(this.size).filter((rank) => this.hostOf(rank) === host);
    const members = new Set(own);
    const groups = [...this.groups].filter(([, ranks]) => ranks.some((rank) => members.has(rank)));
    return newJobMeta(this.job, {
      host,
      engine: 'simulator',
      device: 'H200',
      groups: Object.fromEntries(groups.map(([name, ranks]) => [name, [...ranks]])),
      ranks: own.map((rank) => this.#infoOf(rank)),
    });
  }

  #infoOf(rank: number): JobMeta['ranks'][number] {
    const stage = this.stageOf(rank);
    const local = (this.#firstGpu + rank) % GPUS_PER_HOST;
    return {
      rank,
      host: this.hostOf(rank),
      gpu: `GPU-${this.#hostNumber(rank)}-${local}`,
      local_rank: local,
      dp: this.dpOf(rank),
      tp: rank % this.layout.tp,
      pp: stage,
      stage,
    };
  }

  #hostNumber(rank: number): number {
    return Math.floor((this.#firstGpu + rank) / GPUS_PER_HOST);
  }

  #communicators(): Map<string, number[]> {
    const { dp, tp, pp } = this.layout;
    const groups = new Map<string, number[]>();
    for (let stage = 0; stage < pp; stage++) {
      if (tp > 1)
        for (let d = 0; d < dp; d++) {
          const ranks = range(tp).map((t) => this.rank(stage, d, t));
          this.#checkOneHost(ranks);
          groups.set(tensorGroup(stage, d), ranks);
        }
      if (dp > 1)
        for (let t = 0; t < tp; t++)
          groups.set(
            dataGroup(stage, t),
            range(dp).map((d) => this.rank(stage, d, t)),
          );
    }
    if (pp > 1) {
      groups.set(WORLD, range(this.size));
      for (let d = 0; d < dp; d++)
        for (let t = 0; t < tp; t++) {
          groups.set(embeddingGroup(d, t), [this.rank(0, d, t), this.rank(pp - 1, d, t)]);
          for (let stage = 0; stage + 1 < pp; stage++)
            groups.set(pairGroup(stage, d, t), [this.rank(stage, d, t), this.rank(stage + 1, d, t)]);
        }
    }
    return groups;
  }

  #checkOneHost(ranks: readonly number[]): void {
    if (new Set(ranks.map((rank) => this.hostOf(rank))).size > 1)
      throw new PicketError('bad_input', `tensor parallel group of ranks ${ranks.join(', ')} spans hosts`, {
        field: 'layout.tp',
        remedy: `hosts have ${GPUS_PER_HOST} GPUs: use 1, 2, 4 or 8`,
      });
  }
}

export const WORLD = 'world';
export const tensorGroup = (stage: number, dp: number): string => `tp-s${stage}-d${dp}`;
export const dataGroup = (stage: number, tp: number): string => `dp-s${stage}-t${tp}`;
export const embeddingGroup = (dp: number, tp: number): string => `embedding-d${dp}-t${tp}`;
/** Between `stage` and the next one. */
export const pairGroup = (stage: number, dp: number, tp: number): string => `pp-s${stage}-s${stage + 1}-d${dp}-t${tp}`;

export const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i);
