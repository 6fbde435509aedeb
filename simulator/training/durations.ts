import type { Layout } from '../cluster.js';
import { TRAINING } from '../measured.js';

/** Nominal durations of a job's phases, ns. */
export interface Durations {
  readonly forwardNs: number;
  readonly backwardNs: number;
  readonly reduceScatterNs: number;
  readonly allGatherNs: number;
  readonly embeddingAllReduceNs: number;
  readonly gradNormNs: number;
  readonly optimizerNs: number;
  readonly sendNs: number;
  readonly tensorAllReduceNs: number;
  readonly dataloadNs: number;
  /** A step without noise or faults: what delays are measured against. */
  readonly stepNs: number;
}

/** The measured durations, or with `stepSeconds` those of a job so much larger that its nominal step takes that long. */
export function durationsOf({ pp }: Layout, microbatches: number, stepSeconds: number | undefined): Durations {
  const measured = stepNs(pp, microbatches);
  const scale = stepSeconds === undefined ? 1 : (stepSeconds * 1e9) / measured;
  return {
    forwardNs: TRAINING.forwardNs * scale,
    backwardNs: TRAINING.backwardNs * scale,
    reduceScatterNs: TRAINING.reduceScatterNs * scale,
    allGatherNs: TRAINING.allGatherNs * scale,
    embeddingAllReduceNs: TRAINING.embeddingAllReduceNs * scale,
    gradNormNs: TRAINING.gradNormNs * scale,
    optimizerNs: TRAINING.optimizerNs * scale,
    sendNs: TRAINING.sendNs * scale,
    tensorAllReduceNs: TRAINING.tensorAllReduceNs * scale,
    dataloadNs: TRAINING.dataloadNs * scale,
    stepNs: measured * scale,
  };
}

function stepNs(stages: number, microbatches: number): number {
  const pipeline = (microbatches + stages - 1) * (TRAINING.forwardNs + TRAINING.backwardNs);
  const ends = TRAINING.reduceScatterNs + TRAINING.allGatherNs + TRAINING.optimizerNs;
  return pipeline + ends + TRAINING.dataloadNs + (stages > 1 ? TRAINING.embeddingAllReduceNs + TRAINING.gradNormNs : 0);
}
