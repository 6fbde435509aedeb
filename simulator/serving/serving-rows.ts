import { KIND } from '../../protocol/vocabulary.js';
import { tensorGroup } from '../communicators.js';
import { EAGER, SERVING } from '../measured-serving.js';
import type { HostBatches } from '../rows/host-batches.js';
import type { RowFacts } from '../rows/row-writer.js';
import { messageBytes } from './layers.js';
import type { Load } from './load.js';
import type { StepSums, Sums } from './sums.js';

export interface ServingRowsOptions {
  readonly rows: HostBatches;
  /** Whether the collector sees kernel launches and GPU time. */
  readonly counts: boolean;
}

/** What a replica's ranks report of a step. A rank that does not end the step reports what it has done. */
export class ServingRows {
  readonly #options: ServingRowsOptions;

  constructor(options: ServingRowsOptions) {
    this.#options = options;
  }

  /** Each phase summed over the layers, and the step. `ends`: of the step, by rank; infinite: never. */
  phases(
    replica: number,
    ranks: readonly number[],
    step: number,
    load: Load,
    sums: StepSums,
    starts: Float64Array,
    ends: Float64Array,
  ): void {
    const shape = shapeOf(step, load);
    const { attention, mlp, all_reduce } = sums;
    const layers = SERVING.layers;
    this.#sums(ranks, attention, EAGER.attentionLaunches * layers, {
      ...{ ...shape, phase: 'attention', kind: KIND.compute, count: layers },
    });
    this.#sums(ranks, mlp, EAGER.mlpLaunches * layers, { ...shape, phase: 'mlp', kind: KIND.compute, count: layers });
    if (ranks.length > 1)
      this.#sums(ranks, all_reduce, EAGER.allReduceLaunches * layers, {
        ...{ ...shape, phase: 'all_reduce', kind: KIND.comm, op: 'all_reduce' },
        ...{ group: tensorGroup(0, replica), seq: step, count: 2 * layers, bytes: 2 * layers * messageBytes(load) },
        transfer_ns: Math.round(sums.transferNs[replica] as number),
      });
    this.#step(ranks, load, shape, sums, starts, ends);
  }

  /** The whole step as one prefill, decode or mixed phase, and the step. */
  whole(
    ranks: readonly number[],
    step: number,
    load: Load,
    sums: StepSums,
    starts: Float64Array,
    ends: Float64Array,
  ): void {
    const shape = shapeOf(step, load);
    const facts = { ...shape, ...load.state, phase: phaseOf(load), kind: KIND.compute };
    for (const rank of ranks) this.#add(rank, starts, ends, facts);
    this.#step(ranks, load, shape, sums, starts, ends);
  }

  #step(
    ranks: readonly number[],
    load: Load,
    shape: RowFacts,
    sums: StepSums,
    starts: Float64Array,
    ends: Float64Array,
  ): void {
    const facts: RowFacts = { ...shape, ...load.state, phase: 'step', kind: KIND.step };
    if (this.#options.counts) facts.launches = load.graph > 0 ? 1 : LAUNCHES;
    for (const rank of ranks) {
      const busy = (phase: Sums): number => phase.busy[rank] as number;
      if (this.#options.counts)
        facts.busy_ns = Math.round(busy(sums.attention) + busy(sums.mlp) + busy(sums.all_reduce));
      this.#add(rank, starts, ends, facts);
    }
  }

  #add(rank: number, starts: Float64Array, ends: Float64Array, facts: RowFacts): void {
    const end = ends[rank] as number;
    if (end < Number.POSITIVE_INFINITY) this.#options.rows.add(rank, starts[rank] as number, end, facts);
  }

  /** One row a rank; the same facts serve all of them but for the longest and the GPU time. */
  #sums(ranks: readonly number[], { first, total, longest, busy }: Sums, launches: number, facts: RowFacts): void {
    const eager = this.#options.counts && facts.graph === 0;
    if (eager) facts.launches = launches;
    for (const rank of ranks) {
      const start = first[rank] as number;
      if (Number.isNaN(start)) continue;
      facts.max_ns = Math.round(longest[rank] as number);
      if (eager) facts.busy_ns = Math.round(busy[rank] as number);
      this.#options.rows.addSummed(rank, start, total[rank] as number, facts);
    }
  }
}

const LAUNCHES = (EAGER.attentionLaunches + EAGER.mlpLaunches + EAGER.allReduceLaunches) * SERVING.layers;

const shapeOf = (step: number, load: Load): RowFacts => ({
  step,
  phase: '',
  graph: load.graph,
  batch: load.batch,
  prefill_tokens: load.prefillTokens,
  decode_tokens: load.decodeTokens,
  context_tokens: load.contextTokens,
  request: load.request,
});

const phaseOf = ({ prefillTokens, decodeTokens }: Load): string =>
  prefillTokens === 0 ? 'decode' : decodeTokens === 0 ? 'prefill' : 'mixed';
