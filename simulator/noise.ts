import { EVENTS, GPUS, type GpuKind, NOISE } from './measured.js';
import { Random } from './random.js';

/** Noise of one training job: what healthy hardware and software do. All factors are relative to the nominal duration; times in ns. */
export class Noise {
  readonly #kind: (typeof GPUS)[GpuKind];
  readonly #gpu: Float64Array;
  readonly #wander: Wander[];
  readonly #common: Wander;
  readonly #compute: Random[];
  readonly #host: Random[];
  readonly #end: Random[];
  readonly #transfer: Random;
  readonly #events: Random;
  #commonLog = 0;
  #settling = 0;
  #pausedRank = -1;
  #pauseNs = 0;

  constructor(seed: number, job: string, ranks: number, gpus: GpuKind = 'power_limited') {
    this.#kind = GPUS[gpus];
    const streams = (purpose: string): Random[] =>
      Array.from({ length: ranks }, (_, rank) => Random.stream(seed, job, purpose, rank));
    this.#gpu = Float64Array.from(streams('gpu'), (random) => NOISE.gpuSpread * random.normal());
    this.#wander = streams('wander').map((random) => new Wander(random, this.#kind.wander, NOISE.wanderTimeNs));
    this.#common = new Wander(Random.stream(seed, job, 'common'), this.#kind.commonWander, NOISE.commonWanderTimeNs);
    this.#compute = streams('compute');
    this.#host = streams('host');
    this.#end = streams('end');
    this.#transfer = Random.stream(seed, job, 'transfer');
    this.#events = Random.stream(seed, job, 'events');
  }

  /** Draws what all ranks share in the `step`-th step of a run, which begins at `startNs` and takes about `durNs`. */
  beginStep(step: number, startNs: number, durNs: number): void {
    this.#commonLog = this.#common.over(startNs, durNs);
    this.#settling = -NOISE.settling * Math.exp(-((step / NOISE.settlingSteps) ** 2));
    const pauses = this.#events.uniform() < EVENTS.gcRate;
    const rank = this.#events.below(this.#gpu.length);
    const length = EVENTS.gcMinNs * (EVENTS.gcMaxNs / EVENTS.gcMinNs) ** this.#events.uniform();
    this.#pausedRank = pauses ? rank : -1;
    this.#pauseNs = length;
  }

  /** Factor of a compute phase that begins at `startNs` and nominally takes `durNs`; `white` replaces the white part. */
  compute(rank: number, startNs: number, durNs: number, white: number = this.#kind.forwardWhite): number {
    const random = this.#compute[rank] as Random;
    const wander = (this.#wander[rank] as Wander).over(startNs, durNs);
    const log = (this.#gpu[rank] as number) + wander + this.#commonLog + this.#settling + white * random.normal();
    const spike = random.uniform();
    const size = NOISE.spikeMin + (NOISE.spikeMax - NOISE.spikeMin) * random.uniform();
    return Math.exp(log) * (spike < NOISE.spikeRate ? 1 + size : 1);
  }

  optimizer(rank: number): number {
    return Math.exp(NOISE.optimizer * (this.#compute[rank] as Random).normal());
  }

  host(rank: number): number {
    return Math.exp(NOISE.host * (this.#host[rank] as Random).normal());
  }

  /** A garbage collection of this step on this rank, in ns; mostly 0. */
  pauseNs(rank: number): number {
    return rank === this.#pausedRank ? this.#pauseNs : 0;
  }

  transfer(): number {
    return Math.exp(NOISE.transfer * this.#transfer.normal());
  }

  /** How far a rank's end of a collective lies from the common one, in ns. */
  collectiveEndNs(rank: number): number {
    return NOISE.collectiveEndNs * (this.#end[rank] as Random).normal();
  }

  isWarmup(step: number): boolean {
    return step < EVENTS.warmupFactors.length;
  }

  /** Factor on the first steps' time, on top of the step itself; 0 once warm. */
  warmup(rank: number, step: number): number {
    const spread = 1 + EVENTS.warmupSpread * (2 * (this.#host[rank] as Random).uniform() - 1);
    const factor = EVENTS.warmupFactors[step];
    return factor === undefined ? 0 : (factor - 1) * spread;
  }

  /** Factor on the length of a checkpoint or an evaluation of this rank. */
  save(rank: number): number {
    return Math.exp(EVENTS.checkpointSpread * (this.#host[rank] as Random).normal());
  }
}

/** Ornstein-Uhlenbeck process, averaged over the phases at which it is looked at. */
class Wander {
  readonly #random: Random;
  readonly #sigma: number;
  readonly #timeNs: number;
  #value: number;
  #atNs = 0;

  constructor(random: Random, sigma: number, timeNs: number) {
    this.#random = random;
    this.#sigma = sigma;
    this.#timeNs = timeNs;
    this.#value = random.normal();
  }

  over(startNs: number, durNs: number): number {
    const middle = startNs + durNs / 2;
    const decay = Math.exp(-Math.max(0, middle - this.#atNs) / this.#timeNs);
    this.#value = this.#value * decay + Math.sqrt(1 - decay * decay) * this.#random.normal();
    this.#atNs = middle;
    const x = durNs / this.#timeNs;
    // Variance of the mean over durNs; the limit keeps short phases from cancelling.
    const mean = x < 1e-3 ? 1 : Math.sqrt((2 / x) * (1 - (1 - Math.exp(-x)) / x));
    return this.#sigma * mean * this.#value;
  }
}
