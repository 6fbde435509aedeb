import type { CommGroup } from './collectives.js';
import type { BySlot, StepView } from './step-view.js';
import { type JobTopology, slotsByStage } from './topology.js';

/** Tokens or contexts that differ less are taken for equal. */
const SAME_WORK = 1.05;

/**
 * Slots that do the same work in a step, so that one can be compared with the others: those of a pipeline stage; where
 * replicas of a serving engine have each their own batch, those that share a communicator and a batch.
 */
export interface Peers {
  readonly sets: readonly (readonly number[])[];
  /** Replicas have their own batches. */
  readonly byReplica: boolean;
}

export function peersIn(view: StepView, topology: JobTopology): Peers {
  if (!hasOwnBatches(view, topology)) return { sets: [...slotsByStage(topology).values()], byReplica: false };
  return {
    sets: view.groups.filter((group) => waitsTell(group, view, true)).map(({ slots }) => slots),
    byReplica: true,
  };
}

/** Whether a group's ranks do the same work, so that waiting for one of them means that it is late. */
export const waitsTell = ({ sameStage, slots }: CommGroup, view: StepView, byReplica: boolean): boolean =>
  sameStage && (!byReplica || sameWork(view, slots));

function hasOwnBatches(view: StepView, { ranks }: JobTopology): boolean {
  const { prefill_tokens, decode_tokens } = view.serving;
  const serves = ranks.some((_, slot) => (prefill_tokens[slot] as number) >= 0 || (decode_tokens[slot] as number) >= 0);
  return serves && !sameWork(view, [...ranks.keys()]);
}

const sameWork = ({ tokens, serving }: StepView, slots: readonly number[]): boolean =>
  alike(tokens, slots) && alike(serving.context_tokens, slots);

function alike(values: BySlot, slots: readonly number[]): boolean {
  let [least, most] = [Number.POSITIVE_INFINITY, 0];
  for (const slot of slots) {
    const value = values[slot] as number;
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return most <= SAME_WORK * least;
}
