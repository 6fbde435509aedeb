import { KIND } from '../../protocol/vocabulary.js';
import { expertGroup, pairGroup, tensorGroup } from '../communicators.js';
import { strengthOf } from '../faults.js';
import { EVENTS, EXPERTS, GPUS, type GpuKind, MEMORY_BOUND_SHARE, TOKENS, TRAINING } from '../measured.js';
import { type Action, type Message, playPipeline, schedule } from '../propagation/pipeline.js';
import { Random } from '../random.js';
import type { RowFacts } from '../rows/row-writer.js';
import { collective, networkFactor } from './collectives.js';
import { launched, type TrainingContext } from './context.js';
import type { Durations } from './durations.js';
import { ExpertRouting } from './experts.js';
import { tokenFactor } from './sequences.js';

/** bf16 activations of 8,192 channels. */
const BYTES_PER_TOKEN = 2 * 8192;

type ComputePhase = 'forward' | 'backward';

/** A compute phase of a rank. */
interface Work {
  readonly phase: ComputePhase | 'moe';
  readonly pass: ComputePhase;
  readonly microbatch: number;
  /** Share of the pass that it is. */
  readonly share: number;
  readonly extraNs?: number;
  /** Tokens that it works on, where they are not those of the rank's own microbatch. */
  readonly routed?: number;
}

/**
 * Forward and backward of a step, microbatch by microbatch through the pipeline, with the collectives inside: tensor
 * parallel all-reduces, and around the experts an all-to-all there and one back. Replicas that share experts act together.
 */
export class Compute {
  readonly #context: TrainingContext;
  readonly #schedules: readonly (readonly Action[])[];
  readonly #routing: ExpertRouting;
  readonly #white: Readonly<Record<ComputePhase, number>>;
  /** Factor on each stage's work. */
  readonly #stages: number[];

  constructor(context: TrainingContext, seed: number, gpus: GpuKind) {
    const { cluster, microbatches, spec, faults } = context;
    const { pp } = cluster.layout;
    this.#context = context;
    this.#schedules = Array.from({ length: pp }, (_, stage) => schedule(stage, pp, microbatches));
    this.#routing = new ExpertRouting(seed, cluster.job, faults);
    this.#white = { forward: GPUS[gpus].forwardWhite, backward: GPUS[gpus].backwardWhite };
    const random = Random.stream(seed, cluster.job, 'stages');
    this.#stages = Array.from({ length: pp }, () =>
      spec.unevenStages ? 1 + EVENTS.stageSpread * (random.uniform() - 0.5) : 1,
    );
  }

  play(): void {
    const { cluster, microbatches } = this.#context;
    const { dp, tp, ep } = cluster.layout;
    for (let block = 0; block < dp / ep; block++) this.#playBlock(block, microbatches, tp * ep);
  }

  #playBlock(block: number, microbatches: number, lanes: number): void {
    const { noise, free, durations } = this.#context;
    playPipeline(this.#schedules, microbatches, lanes, {
      compute: (stage, phase, microbatch) => this.#microbatch(stage, block, phase, microbatch),
      free: (stage, lane) => free[this.#rank(stage, block, lane)] as number,
      transferNs: () => durations.sendNs * noise.transfer(),
      slowness: (boundary, lane) =>
        networkFactor(this.#context, this.#pair(boundary, block, lane), TRAINING.microbatchTokens * BYTES_PER_TOKEN),
      exchanged: (stage, lane, messages, start, end) => this.#exchanged(stage, block, lane, messages, start, end),
    });
  }

  /** One microbatch on the replicas of a block at a stage. */
  #microbatch(stage: number, block: number, phase: ComputePhase, microbatch: number): void {
    const { cluster } = this.#context;
    const { tp, ep } = cluster.layout;
    for (let dp = block * ep; dp < (block + 1) * ep; dp++) {
      for (let lane = 0; lane < tp; lane++) this.#dense(cluster.rank(stage, dp, lane), phase, microbatch);
      if (tp > 1) this.#tensorAllReduce(stage, dp, phase, microbatch);
    }
    if (ep > 1) for (let lane = 0; lane < tp; lane++) this.#experts(stage, block, lane, phase, microbatch);
  }

  /** Forward or backward of a rank; with experts, of all but them. */
  #dense(rank: number, phase: ComputePhase, microbatch: number): void {
    const { cluster, noise, durations, sinceStart } = this.#context;
    const share = cluster.layout.ep > 1 ? 1 - EXPERTS.share : 1;
    const first = phase === 'forward' && microbatch === 0;
    const warmup = first ? (noise.warmup(rank, sinceStart) * durations.stepNs) / cluster.layout.pp : 0;
    this.#work(rank, { phase, pass: phase, microbatch, share, extraNs: warmup });
  }

  /** Tokens go to the ranks that hold their experts, and come back. */
  #experts(stage: number, block: number, lane: number, phase: ComputePhase, microbatch: number): void {
    const { cluster, durations, sequences, step, microbatches } = this.#context;
    const { ep } = cluster.layout;
    const group = expertGroup(stage, block, lane);
    const ranks = cluster.group(group);
    const mean = ranks.reduce((sum, rank) => sum + sequences.tokens(cluster.dpOf(rank), microbatch), 0) / ep;
    const exchangeNs = EXPERTS.exchangeShare * nominal(durations, phase) * (mean / TRAINING.microbatchTokens);
    const seq = ((step * microbatches + microbatch) * 2 + (phase === 'forward' ? 0 : 1)) * 2;
    const facts = { microbatch, bytes: Math.round(mean * EXPERTS.topK * BYTES_PER_TOKEN) };
    collective(this.#context, 'all_to_all', group, seq, exchangeNs, facts);
    for (const [i, share] of this.#routing.shares(ranks, step).entries())
      this.#work(ranks[i] as number, {
        ...{ phase: 'moe', pass: phase, microbatch, share: EXPERTS.share, routed: Math.round(mean * share) },
      });
    collective(this.#context, 'all_to_all', group, seq + 1, exchangeNs, facts);
  }

  #work(rank: number, { phase, pass, microbatch, share, extraNs = 0, routed }: Work): void {
    const { cluster, noise, faults, rows, sequences, free, step, durations } = this.#context;
    const start = launched(this.#context, rank);
    if (start === Number.POSITIVE_INFINITY) return;
    const dp = cluster.dpOf(rank);
    const tokens = routed ?? sequences.tokens(dp, microbatch);
    const slow =
      1 +
      strengthOf(faults, 'compute', rank, step) +
      strengthOf(faults, 'drift', rank, step) +
      MEMORY_BOUND_SHARE * strengthOf(faults, 'memory', rank, step);
    const work =
      nominal(durations, pass) *
      share *
      tokenFactor(pass, tokens) *
      slow *
      (this.#stages[cluster.stageOf(rank)] as number);
    const white = sequences.varies ? TOKENS.white : this.#white[pass];
    const duration = work * noise.compute(rank, start, work, white) * sequences.content(dp, microbatch) + extraNs;
    const row: RowFacts = { step, phase, kind: KIND.compute, microbatch, tokens };
    // Both passes have one of this name.
    if (phase === 'moe') row.seq = pass === 'forward' ? 0 : 1;
    rows.add(rank, start, start + duration, row);
    free[rank] = start + duration;
  }

  /** The all-reduces inside a forward or backward, summed into one row and laid after it. */
  #tensorAllReduce(stage: number, dp: number, phase: ComputePhase, microbatch: number): void {
    const { durations, sequences, step, microbatches } = this.#context;
    const tokens = sequences.tokens(dp, microbatch);
    const count = TRAINING.tensorAllReduces;
    const seq = (step * microbatches + microbatch) * 2 + (phase === 'forward' ? 0 : 1);
    const share = tokens / TRAINING.microbatchTokens;
    const facts = { microbatch, count, bytes: tokens * BYTES_PER_TOKEN * count };
    collective(this.#context, 'all_reduce', tensorGroup(stage, dp), seq, durations.tensorAllReduceNs * share, facts);
  }

  #exchanged(
    stage: number,
    block: number,
    lane: number,
    messages: readonly Message[],
    start: number,
    end: number,
  ): void {
    const { noise, rows, sequences, microbatches, step, free, traffic, cluster } = this.#context;
    const rank = this.#rank(stage, block, lane);
    const dp = cluster.dpOf(rank);
    const stop = Math.max(end + noise.collectiveEndNs(rank), start + 1);
    for (const { boundary, gradient, microbatch, sends } of messages) {
      const op = sends ? 'send' : 'recv';
      const group = this.#pair(boundary, block, lane);
      const bytes = sequences.tokens(dp, microbatch) * BYTES_PER_TOKEN;
      const seq = (step * 2 + (gradient ? 1 : 0)) * microbatches + microbatch;
      const row = { step, phase: op, kind: KIND.comm, op, group, seq, microbatch, bytes };
      if (sends) traffic?.message(rank, this.#rank(gradient ? boundary : boundary + 1, block, lane), bytes);
      if (stop < Number.POSITIVE_INFINITY) rows.add(rank, start, stop, row);
      else if (start < Number.POSITIVE_INFINITY) rows.addEndless(rank, start, row);
    }
    free[rank] = stop;
  }

  /** Lanes of a block count its replicas' tensor parallel ranks. */
  #rank(stage: number, block: number, lane: number): number {
    const { tp, ep } = this.#context.cluster.layout;
    return this.#context.cluster.rank(stage, block * ep + Math.floor(lane / tp), lane % tp);
  }

  #pair(boundary: number, block: number, lane: number): string {
    const { tp, ep } = this.#context.cluster.layout;
    return pairGroup(boundary, block * ep + Math.floor(lane / tp), lane % tp);
  }
}

const nominal = (durations: Durations, pass: ComputePhase): number =>
  pass === 'forward' ? durations.forwardNs : durations.backwardNs;
