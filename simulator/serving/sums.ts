/** Sum, longest, start and GPU time of each rank's phases of one name in a step, ns. */
export class Sums {
  readonly total: Float64Array;
  readonly longest: Float64Array;
  readonly first: Float64Array;
  readonly busy: Float64Array;

  constructor(ranks: number) {
    this.total = new Float64Array(ranks);
    this.longest = new Float64Array(ranks);
    this.first = new Float64Array(ranks).fill(Number.NaN);
    this.busy = new Float64Array(ranks);
  }

  /** `busyNs`: what of it the GPU works. */
  add(rank: number, startNs: number, durNs: number, busyNs: number): void {
    if (Number.isNaN(this.first[rank])) this.first[rank] = startNs;
    this.total[rank] = (this.total[rank] as number) + durNs;
    this.longest[rank] = Math.max(this.longest[rank] as number, durNs);
    this.busy[rank] = (this.busy[rank] as number) + busyNs;
  }
}

/** The phases of a step. */
export class StepSums {
  readonly attention: Sums;
  readonly mlp: Sums;
  readonly all_reduce: Sums;
  /** Of each replica's all-reduces: the shortest of the ranks' durations, summed. */
  readonly transferNs: Float64Array;

  constructor(ranks: number, replicas: number) {
    this.attention = new Sums(ranks);
    this.mlp = new Sums(ranks);
    this.all_reduce = new Sums(ranks);
    this.transferNs = new Float64Array(replicas);
  }
}
