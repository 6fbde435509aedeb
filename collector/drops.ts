/** Why a phase that an engine stamped became no part of a row. */
export const DROP_REASONS = [
  /** It began before the engine told a step, or after records that told one were lost. */
  'no_step',
  /** Its begin is there and its end never came. */
  'unclosed',
  /** Its end is there and its begin is not. */
  'unopened',
  /** Its id is in no phase table. */
  'unknown_phase',
  /** A host phase that ended after its step had been sent. */
  'late',
] as const;
export type DropReason = (typeof DROP_REASONS)[number];
export type DropCounts = Record<DropReason, number>;

export const newDropCounts = (): DropCounts => ({ no_step: 0, unclosed: 0, unopened: 0, unknown_phase: 0, late: 0 });
