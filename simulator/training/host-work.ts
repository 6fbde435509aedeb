import { KIND } from '../../protocol/vocabulary.js';
import { lateness, strengthOf } from '../faults.js';
import { EVENTS, TRAINING } from '../measured.js';
import type { TrainingContext } from './context.js';

/** Host work before a step: launch gap (with pauses) and input. */
export function prepare({ cluster, noise, events, faults, rows, free, step, durations }: TrainingContext): void {
  const { stepNs, dataloadNs } = durations;
  for (let rank = 0; rank < cluster.size; rank++) {
    const late = lateness(faults, rank, step) + events.collection(rank, step);
    const gap = TRAINING.hostGapNs * noise.host(rank) + noise.pauseNs(rank) + late * stepNs;
    const stall = strengthOf(faults, 'data', rank, step) + events.loaderStall;
    const input = dataloadNs * noise.host(rank) + stall * stepNs;
    const begin = free[rank] as number;
    if (begin === Number.POSITIVE_INFINITY) continue;
    rows.add(rank, begin, begin + gap, { step, phase: 'host_gap', kind: KIND.host });
    rows.add(rank, begin + gap, begin + gap + input, { step, phase: 'dataload', kind: KIND.host });
    free[rank] = begin + gap + input;
  }
}

/** The step's own row, and what follows it on the host: checkpoint and evaluation. `starts`: of the step, by rank. */
export function finish(context: TrainingContext, starts: Float64Array): void {
  const { cluster, noise, events, rows, free, step, sequences, durations } = context;
  for (let rank = 0; rank < cluster.size; rank++) {
    const end = free[rank] as number;
    if (end === Number.POSITIVE_INFINITY) continue;
    const tokens = sequences.stepTokens(cluster.dpOf(rank));
    rows.add(rank, starts[rank] as number, end, { step, phase: 'step', kind: KIND.step, tokens });
    const takes = (factor: number): number => durations.stepNs * factor * noise.save(rank);
    if (events.saves(rank, step)) hostPhase(context, rank, 'checkpoint', takes(EVENTS.checkpointFactor));
    if (events.evaluates(step)) hostPhase(context, rank, 'evaluation', takes(EVENTS.evaluationFactor));
  }
}

function hostPhase({ rows, free, step }: TrainingContext, rank: number, phase: string, durNs: number): void {
  const start = free[rank] as number;
  rows.add(rank, start, start + durNs, { step, phase, kind: KIND.host });
  free[rank] = start + durNs;
}
