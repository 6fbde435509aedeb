import { KIND } from '../../protocol/vocabulary.js';
import { type Cluster, dataGroup, embeddingGroup, pairGroup, tensorGroup, WORLD } from '../cluster.js';
import { type Fault, strengthOf } from '../faults.js';
import type { HostBatches } from '../host-batches.js';
import { EVENTS, NOISE, TOKENS, TRAINING } from '../measured.js';
import type { Noise } from '../noise.js';
import { collectiveEnd } from '../propagation/collective.js';
import { type Action, type Message, playPipeline, schedule } from '../propagation/pipeline.js';
import type { RowFacts } from '../row-writer.js';
import { type Tokens, tokenFactor } from './tokens.js';

/** bf16 activations of 8,192 channels; gradients of 1 B parameters a rank. */
const BYTES_PER_TOKEN = 2 * 8192;
const GRADIENT_BYTES = 2e9;
const EMBEDDING_BYTES = 2.5e8;

export interface TrainingParts {
  readonly cluster: Cluster;
  readonly noise: Noise;
  readonly tokens: Tokens;
  readonly faults: readonly Fault[];
  readonly rows: HostBatches;
  readonly microbatches: number;
}

type ComputePhase = 'forward' | 'backward';
type Collective = 'all_reduce' | 'reduce_scatter' | 'all_gather';

/**
 * Training steps. One stage: forward, backward, all-reduce of the gradients, optimizer. Several: one forward, one
 * backward schedule, embedding all-reduce, reduce-scatter, all-reduce of the gradient norm, optimizer, all-gather.
 * The step row is the GPU's: host gap and input come before it, a checkpoint after it.
 */
export class Training {
  readonly #parts: TrainingParts;
  readonly #schedules: readonly (readonly Action[])[];
  /** When each rank can begin its next phase, ns from the run's base. */
  readonly #free: Float64Array;
  readonly #stepNs: number;
  #step = 0;
  /** Tokens of the running step, by replica and microbatch. */
  #tokens: number[][] = [];

  constructor(parts: TrainingParts) {
    const { layout, size } = parts.cluster;
    this.#parts = parts;
    this.#schedules = Array.from({ length: layout.pp }, (_, stage) => schedule(stage, layout.pp, parts.microbatches));
    this.#free = new Float64Array(size);
    this.#stepNs = nominalStepNs(layout.pp, parts.microbatches);
  }

  /** Plays one step and adds its rows. */
  step(step: number): void {
    const { cluster, noise, tokens, microbatches } = this.#parts;
    const { dp, pp } = cluster.layout;
    this.#step = step;
    this.#tokens = Array.from({ length: dp }, (_, replica) => tokens.draw(replica, microbatches));
    noise.beginStep(step, this.#free[0] as number, this.#stepNs);
    this.#prepare();
    const starts = Float64Array.from(this.#free);
    for (let replica = 0; replica < dp; replica++) this.#computeReplica(replica);
    if (pp > 1) this.#endOfPipelineStep();
    else this.#endOfPlainStep();
    this.#finish(starts);
  }

  /** Host work before the step: launch gap (with pauses) and input. */
  #prepare(): void {
    const { cluster, noise, faults, rows } = this.#parts;
    const step = this.#step;
    for (let rank = 0; rank < cluster.size; rank++) {
      const late = strengthOf(faults, 'host', rank, step) * this.#stepNs;
      const gap = TRAINING.hostGapNs * noise.host(rank) + noise.pauseNs(rank) + late;
      const input = TRAINING.dataloadNs * noise.host(rank) + strengthOf(faults, 'data', rank, step) * this.#stepNs;
      const begin = this.#free[rank] as number;
      rows.add(rank, begin, begin + gap, { step, phase: 'host_gap', kind: KIND.host });
      rows.add(rank, begin + gap, begin + gap + input, { step, phase: 'dataload', kind: KIND.host });
      this.#free[rank] = begin + gap + input;
    }
  }

  #computeReplica(dp: number): void {
    const { noise, microbatches, cluster } = this.#parts;
    playPipeline(this.#schedules, microbatches, cluster.layout.tp, {
      compute: (stage, phase, microbatch) => this.#compute(stage, dp, phase, microbatch),
      free: (stage, lane) => this.#free[cluster.rank(stage, dp, lane)] as number,
      transferNs: () => TRAINING.sendNs * noise.transfer(),
      exchanged: (stage, lane, messages, start, end) => this.#exchanged(stage, dp, lane, messages, start, end),
    });
  }

  #compute(stage: number, dp: number, phase: ComputePhase, microbatch: number): void {
    const { cluster, noise, faults, rows, tokens: shapes } = this.#parts;
    const step = this.#step;
    const tp = cluster.layout.tp;
    const tokens = this.#tokens[dp]?.[microbatch] as number;
    const nominal = (phase === 'forward' ? TRAINING.forwardNs : TRAINING.backwardNs) * tokenFactor(phase, tokens);
    const white = shapes.varies ? TOKENS.white : NOISE.white;
    for (let lane = 0; lane < tp; lane++) {
      const rank = cluster.rank(stage, dp, lane);
      const start = this.#launch(rank);
      const slow = 1 + strengthOf(faults, 'compute', rank, step);
      let duration = nominal * slow * noise.compute(rank, start, nominal * slow, white);
      if (phase === 'forward' && microbatch === 0)
        duration += (noise.warmup(rank, step) * this.#stepNs) / cluster.layout.pp;
      rows.add(rank, start, start + duration, { step, phase, kind: KIND.compute, microbatch, tokens });
      this.#free[rank] = start + duration;
    }
    if (tp > 1) this.#tensorAllReduce(stage, dp, phase, microbatch, tokens);
  }

  /** The all-reduces inside a forward or backward, summed into one row and laid after it. */
  #tensorAllReduce(stage: number, dp: number, phase: ComputePhase, microbatch: number, tokens: number): void {
    const { microbatches } = this.#parts;
    const count = TRAINING.tensorAllReduces;
    const seq = (this.#step * microbatches + microbatch) * 2 + (phase === 'forward' ? 0 : 1);
    const share = tokens / TRAINING.microbatchTokens;
    this.#collective('all_reduce', tensorGroup(stage, dp), seq, TRAINING.tensorAllReduceNs * share, {
      microbatch,
      count,
      bytes: tokens * BYTES_PER_TOKEN * count,
    });
  }

  #exchanged(stage: number, dp: number, lane: number, messages: readonly Message[], start: number, end: number): void {
    const { cluster, noise, rows, microbatches } = this.#parts;
    const rank = cluster.rank(stage, dp, lane);
    const stop = Math.max(end + noise.collectiveEndNs(rank), start + 1);
    for (const { boundary, gradient, microbatch, sends } of messages) {
      const phase = sends ? 'send' : 'recv';
      rows.add(rank, start, stop, {
        step: this.#step,
        phase,
        kind: KIND.comm,
        op: phase,
        group: pairGroup(boundary, dp, lane),
        seq: (this.#step * 2 + (gradient ? 1 : 0)) * microbatches + microbatch,
        microbatch,
        bytes: (this.#tokens[dp]?.[microbatch] as number) * BYTES_PER_TOKEN,
      });
    }
    this.#free[rank] = stop;
  }

  #endOfPlainStep(): void {
    this.#dataParallel('all_reduce', this.#step, TRAINING.reduceScatterNs + TRAINING.allGatherNs);
    this.#optimizer();
  }

  #endOfPipelineStep(): void {
    const { dp, tp } = this.#parts.cluster.layout;
    const step = this.#step;
    for (let replica = 0; replica < dp; replica++)
      for (let lane = 0; lane < tp; lane++)
        this.#collective('all_reduce', embeddingGroup(replica, lane), step, TRAINING.embeddingAllReduceNs, {
          bytes: EMBEDDING_BYTES,
        });
    this.#dataParallel('reduce_scatter', 2 * step, TRAINING.reduceScatterNs);
    this.#collective('all_reduce', WORLD, step, TRAINING.gradNormNs, { bytes: 4 });
    this.#optimizer();
    this.#dataParallel('all_gather', 2 * step + 1, TRAINING.allGatherNs);
  }

  #dataParallel(op: Collective, seq: number, transferNs: number): void {
    const { dp, tp, pp } = this.#parts.cluster.layout;
    if (dp === 1) return;
    for (let stage = 0; stage < pp; stage++)
      for (let lane = 0; lane < tp; lane++)
        this.#collective(op, dataGroup(stage, lane), seq, transferNs, { bytes: GRADIENT_BYTES });
  }

  #collective(
    op: Collective,
    group: string,
    seq: number,
    transferNs: number,
    facts: { bytes: number; microbatch?: number; count?: number },
  ): void {
    const { cluster, noise, rows } = this.#parts;
    const ranks = cluster.group(group);
    for (const rank of ranks) this.#free[rank] = this.#launch(rank);
    const end = collectiveEnd(this.#free, ranks, transferNs * noise.transfer());
    const durations = ranks.map((rank) =>
      Math.max(1, Math.round(end + noise.collectiveEndNs(rank) - (this.#free[rank] as number))),
    );
    const row: RowFacts = { step: this.#step, phase: op, kind: KIND.comm, op, group, seq, ...facts };
    if (facts.count) row.transfer_ns = Math.min(...durations);
    for (const [i, rank] of ranks.entries()) {
      const start = this.#free[rank] as number;
      const duration = durations[i] as number;
      // Lateness accrues layer by layer, so the summed ones are alike.
      if (facts.count) row.max_ns = Math.ceil(duration / facts.count);
      rows.add(rank, start, start + duration, row);
      this.#free[rank] = start + duration;
    }
  }

  #optimizer(): void {
    const { cluster, noise, rows } = this.#parts;
    for (let rank = 0; rank < cluster.size; rank++) {
      const start = this.#launch(rank);
      const end = start + TRAINING.optimizerNs * noise.optimizer(rank);
      rows.add(rank, start, end, { step: this.#step, phase: 'optimizer', kind: KIND.compute });
      this.#free[rank] = end;
    }
  }

  #finish(starts: Float64Array): void {
    const { cluster, noise, rows } = this.#parts;
    const step = this.#step;
    const saves = step % EVENTS.checkpointSteps === EVENTS.checkpointSteps - 1;
    for (let rank = 0; rank < cluster.size; rank++) {
      const end = this.#free[rank] as number;
      const tokens = (this.#tokens[cluster.dpOf(rank)] ?? []).reduce((sum, n) => sum + n, 0);
      rows.add(rank, starts[rank] as number, end, { step, phase: 'step', kind: KIND.step, tokens });
      if (!saves) continue;
      const saved = end + this.#stepNs * noise.checkpoint(rank);
      rows.add(rank, end, saved, { step, phase: 'checkpoint', kind: KIND.host });
      this.#free[rank] = saved;
    }
  }

  /** When a rank's next GPU phase begins: launching it takes a moment. */
  #launch(rank: number): number {
    return (this.#free[rank] as number) + TRAINING.launchGapNs;
  }
}

/** A step without noise or faults, in ns: what delays are measured against. */
function nominalStepNs(stages: number, microbatches: number): number {
  const pipeline = (microbatches + stages - 1) * (TRAINING.forwardNs + TRAINING.backwardNs);
  const ends = TRAINING.reduceScatterNs + TRAINING.allGatherNs + TRAINING.optimizerNs;
  return pipeline + ends + TRAINING.dataloadNs + (stages > 1 ? TRAINING.embeddingAllReduceNs + TRAINING.gradNormNs : 0);
}
