import type { Cause, IncidentKind } from '../protocol/incident.js';

/** What is really wrong: for tests and scoreboards only, never part of the rows. */
export interface Truth {
  readonly job: string;
  readonly kind: IncidentKind;
  readonly cause: Cause;
  readonly subject: { readonly ranks?: readonly number[]; readonly stage?: number };
  readonly onset_step: number;
  /** First step without it, where it ends within the run. */
  readonly end_step?: number;
  /** Compute: share of more work. Host and data: delay over the nominal step. */
  readonly strength: number;
}

/** What slows which ranks, as a workload applies it. */
export type Effect = 'compute' | 'host' | 'data';

export interface Fault {
  readonly effect: Effect;
  readonly ranks: ReadonlySet<number>;
  readonly onset: number;
  readonly end: number;
  readonly strength: number;
  readonly truth: Truth;
}

/** Strength of one effect on a rank in a step; 0 where nothing is wrong. */
export function strengthOf(faults: readonly Fault[], effect: Effect, rank: number, step: number): number {
  let sum = 0;
  for (const fault of faults)
    if (fault.effect === effect && step >= fault.onset && step < fault.end && fault.ranks.has(rank))
      sum += fault.strength;
  return sum;
}
