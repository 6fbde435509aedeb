import { PicketError } from '../protocol/errors.js';
import { type JobMeta, newJobMeta } from '../protocol/job-meta.js';
import { communicatorsOf, range } from './communicators.js';

export const GPUS_PER_HOST = 8;

/** Degrees of data, tensor and pipeline parallelism, whose product is the number of ranks, and of expert parallelism, a divisor of dp. */
export interface Layout {
  readonly dp: number;
  readonly tp: number;
  readonly pp: number;
  readonly ep: number;
}

/** Where a job's ranks sit in the fleet. */
export interface Site {
  readonly gpusPerHost?: number;
  /** The fleet's GPU on which the job begins. */
  readonly firstGpu?: number;
}

/** Where the ranks of one job sit. Ranks count tensor fastest, then data, then stages, as Megatron does. */
export class Cluster {
  readonly job: string;
  readonly layout: Layout;
  readonly size: number;
  readonly hosts: readonly string[];
  /** Communicators: name -> ranks. */
  readonly groups: ReadonlyMap<string, readonly number[]>;
  readonly #gpusPerHost: number;
  readonly #firstGpu: number;

  /** Throws `bad_input` if a tensor parallel group would span hosts. */
  constructor(job: string, layout: Layout, { gpusPerHost = GPUS_PER_HOST, firstGpu = 0 }: Site = {}) {
    this.job = job;
    this.layout = layout;
    this.size = layout.dp * layout.tp * layout.pp;
    this.#gpusPerHost = gpusPerHost;
    this.#firstGpu = firstGpu;
    this.hosts = [...new Set(range(this.size).map((rank) => this.hostOf(rank)))];
    this.groups = communicatorsOf(this);
    this.#checkTensorGroups();
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

  /** Place of a rank's GPU within its host. */
  localOf(rank: number): number {
    return (this.#firstGpu + rank) % this.#gpusPerHost;
  }

  gpuOf(rank: number): string {
    return `GPU-${this.#hostNumber(rank)}-${this.localOf(rank)}`;
  }

  /** The NIC of a rank's GPU: one rail a GPU. */
  nicOf(rank: number): string {
    return `mlx5_${this.localOf(rank)}`;
  }

  ranksOfStage(stage: number): number[] {
    return range(this.size).filter((rank) => this.stageOf(rank) === stage);
  }

  ranksOfHost(host: string): number[] {
    return range(this.size).filter((rank) => this.hostOf(rank) === host);
  }

  /** Ranks of a group. Throws if the layout has no such group: a mistake of the caller. */
  group(name: string): readonly number[] {
    const ranks = this.groups.get(name);
    if (!ranks) throw new Error(`no group ${name}`);
    return ranks;
  }

  spansHosts(group: string): boolean {
    return new Set(this.group(group).map((rank) => this.hostOf(rank))).size > 1;
  }

  /** What the collector of a host knows: its own ranks, and the communicators that they belong to. */
  metaOf(host: string, run: string): JobMeta {
    const own = this.ranksOfHost(host);
    const members = new Set(own);
    const groups = [...this.groups].filter(([, ranks]) => ranks.some((rank) => members.has(rank)));
    return newJobMeta(this.job, {
      run,
      host,
      engine: 'simulator',
      device: 'H200',
      groups: Object.fromEntries(groups.map(([name, ranks]) => [name, [...ranks]])),
      ranks: own.map((rank) => this.#infoOf(rank)),
    });
  }

  #infoOf(rank: number): JobMeta['ranks'][number] {
    const stage = this.stageOf(rank);
    const dp = this.dpOf(rank);
    return {
      ...{ rank, host: this.hostOf(rank), gpu: this.gpuOf(rank), local_rank: this.localOf(rank) },
      ...{ dp, tp: rank % this.layout.tp, pp: stage, stage },
      ...(this.layout.ep > 1 && { ep: dp % this.layout.ep }),
    };
  }

  #hostNumber(rank: number): number {
    return Math.floor((this.#firstGpu + rank) / this.#gpusPerHost);
  }

  #checkTensorGroups(): void {
    const { tp } = this.layout;
    for (let first = 0; tp > 1 && first < this.size; first += tp)
      if (this.hostOf(first) !== this.hostOf(first + tp - 1))
        throw new PicketError('bad_input', `tensor parallel group of ranks ${first} to ${first + tp - 1} spans hosts`, {
          field: 'layout.tp',
          remedy: `hosts have ${this.#gpusPerHost} GPUs: use a divisor of that`,
        });
  }
}
