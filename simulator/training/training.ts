import { KIND } from '../../protocol/vocabulary.js';
import { dataGroup, embeddingGroup, WORLD } from '../communicators.js';
import { activeFault, type Effect, isActive, strengthOf } from '../faults.js';
import { EVENTS, type GpuKind } from '../measured.js';
import { type CollectiveOp, collective } from './collectives.js';
import { Compute } from './compute.js';
import { launched, type TrainingContext } from './context.js';
import { finish, prepare } from './host-work.js';

/** Gradients of 1 B parameters a rank, in bf16. */
const GRADIENT_BYTES = 2e9;
const EMBEDDING_BYTES = 2.5e8;
/** How often a collector reports what is open, where steps are shorter. */
const REPORT_NS = 1e9;
/** Effects that make a rank late by their strength in nominal steps. */
const LATE_EFFECTS: ReadonlySet<Effect> = new Set(['host', 'data']);

/**
 * Training steps. One stage: forward, backward, all-reduce of the gradients, optimizer. Several: one forward, one
 * backward schedule, embedding all-reduce, reduce-scatter, all-reduce of the gradient norm, optimizer, all-gather.
 * The step row is the GPU's: host gap and input come before it, checkpoint and evaluation after it.
 */
export class Training {
  readonly #context: TrainingContext;
  readonly #compute: Compute;
  readonly #hangNs: number;
  readonly #reportNs: number;
  /** When the collectors last reported on a job that hangs; NaN while it does not. */
  #reportedNs = Number.NaN;

  constructor(context: TrainingContext, seed: number, gpus: GpuKind, hangSeconds = Number.POSITIVE_INFINITY) {
    this.#context = context;
    this.#compute = new Compute(context, seed, gpus);
    this.#hangNs = hangSeconds * 1e9;
    this.#reportNs = Math.max(REPORT_NS, context.durations.stepNs);
  }

  /** When the job is, ns from the run's base. */
  get nowNs(): number {
    return Number.isNaN(this.#reportedNs) ? (this.#context.free[0] as number) : this.#reportedNs;
  }

  /** Another attempt: its processes start anew, after a while. */
  restart(run: string): void {
    const { free, rows } = this.#context;
    const last = Math.max(...free);
    free.fill(last + EVENTS.restartNs);
    this.#context.sinceStart = 0;
    this.#context.transferPace.startRun(run);
    rows.startRun(run);
  }

  /** Plays one step and adds its rows; of a job that hangs, what its collectors report meanwhile. */
  step(step: number): void {
    const { rows, free } = this.#context;
    if (!Number.isNaN(this.#reportedNs)) {
      rows.heartbeat((this.#reportedNs += this.#reportNs));
      return;
    }
    this.#play(step);
    // Ranks whose groups are complete go on until they meet one that waits.
    for (let next = step + 1; !Number.isNaN(rows.endlessSinceNs) && free.some(Number.isFinite); next++)
      this.#play(next);
    this.#reportedNs = rows.endlessSinceNs;
  }

  #play(step: number): void {
    const { spec, noise, events, sequences, rows, free, durations, cluster } = this.#context;
    this.#context.step = step;
    noise.beginStep(this.#context.sinceStart, free.find(Number.isFinite) as number, durations.stepNs);
    events.beginStep();
    sequences.draw(step);
    if (spec.opens && this.#isLong()) rows.beginLong(this.#reportNs);
    prepare(this.#context);
    if (cluster.layout.dp === 1) this.#hang();
    const starts = Float64Array.from(free);
    this.#compute.play();
    if (cluster.layout.dp > 1) this.#hang();
    if (cluster.layout.pp > 1) this.#endOfPipelineStep();
    else this.#endOfPlainStep();
    finish(this.#context, starts);
    rows.endLong();
    this.#context.sinceStart++;
  }

  /** A rank that does not come, or late: no row of its own says why. */
  #hang(): void {
    const { faults, free, step } = this.#context;
    const fault = activeFault(faults, 'hang', step);
    if (fault?.onset !== step) return;
    for (const rank of fault.ranks) free[rank] = (free[rank] as number) + this.#hangNs;
  }

  /** Whether the step is so long that collectors report parts of it before it ends. */
  #isLong(): boolean {
    const { noise, events, faults, step, sinceStart, durations } = this.#context;
    if (noise.isWarmup(sinceStart) || events.saves(0, step) || events.evaluates(step) || events.loaderStall > 0)
      return true;
    return faults.some(
      (fault) =>
        isActive(fault, step) &&
        (fault.effect === 'hang' ||
          (LATE_EFFECTS.has(fault.effect) && fault.strength * durations.stepNs > this.#reportNs)),
    );
  }

  #endOfPlainStep(): void {
    const { reduceScatterNs, allGatherNs } = this.#context.durations;
    this.#dataParallel('all_reduce', this.#context.step, reduceScatterNs + allGatherNs);
    this.#optimizer();
  }

  #endOfPipelineStep(): void {
    const { cluster, step, durations } = this.#context;
    const { dp, tp } = cluster.layout;
    for (let replica = 0; replica < dp; replica++)
      for (let lane = 0; lane < tp; lane++)
        collective(this.#context, 'all_reduce', embeddingGroup(replica, lane), step, durations.embeddingAllReduceNs, {
          bytes: EMBEDDING_BYTES,
        });
    this.#dataParallel('reduce_scatter', 2 * step, durations.reduceScatterNs);
    collective(this.#context, 'all_reduce', WORLD, step, durations.gradNormNs, { bytes: 4 });
    this.#optimizer();
    this.#dataParallel('all_gather', 2 * step + 1, durations.allGatherNs);
  }

  #dataParallel(op: CollectiveOp, seq: number, transferNs: number): void {
    const { dp, tp, pp } = this.#context.cluster.layout;
    if (dp === 1) return;
    for (let stage = 0; stage < pp; stage++)
      for (let lane = 0; lane < tp; lane++)
        collective(this.#context, op, dataGroup(stage, lane), seq, transferNs, { bytes: GRADIENT_BYTES });
  }

  #optimizer(): void {
    const { cluster, noise, faults, rows, free, step, durations } = this.#context;
    for (let rank = 0; rank < cluster.size; rank++) {
      const start = launched(this.#context, rank);
      if (start === Number.POSITIVE_INFINITY) continue;
      const slow = 1 + strengthOf(faults, 'memory', rank, step);
      const end = start + durations.optimizerNs * slow * noise.optimizer(rank);
      rows.add(rank, start, end, { step, phase: 'optimizer', kind: KIND.compute });
      free[rank] = end;
    }
  }
}
