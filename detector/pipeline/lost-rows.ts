import { servingTokens } from '../reference/decode-past.js';
import { type BySlot, type StepView, WORK_CLASSES } from './step-view.js';

/** A phase that a rank had in three of four steps before is one that it has in every step, even where one row was lost. */
const STEPS = 4;
const MOSTLY = 0.75;

/**
 * A rank that lacks a phase of its own work which it had in the steps before has lost rows on the way: what it worked is
 * unknown, not small. Its work becomes NaN, so that nobody seems slow beside it and no model learns from it. Serving steps
 * differ in what they do: there another rank must have the phase.
 * @param past steps before this one, oldest first
 * @returns whether a rank of the step was incomplete
 */
export function forgetIncomplete(view: StepView, past: readonly StepView[]): boolean {
  const before = past.at(-1);
  if (!before) return false;
  let incomplete = false;
  for (const [phase, sums] of view.phases)
    if (isOwnWork(view, phase) && forget(view, past, phase, sums)) incomplete = true;
  if (servingTokens(view) === undefined)
    for (const phase of before.phases.keys())
      if (!view.phases.has(phase) && isOwnWork(before, phase) && forget(view, past, phase)) incomplete = true;
  return incomplete;
}

const isOwnWork = ({ commPhases }: StepView, phase: string): boolean => phase !== 'step' && !commPhases.includes(phase);

/** Forgets the work of ranks that lack the phase; false: none does. */
function forget(view: StepView, past: readonly StepView[], phase: string, sums?: BySlot): boolean {
  let lacking = false;
  for (let slot = 0; slot < view.gap.length; slot++) {
    if ((sums?.[slot] ?? 0) > 0 || !isMostlyThere(past.slice(-STEPS), phase, slot)) continue;
    for (const name of WORK_CLASSES) view.work[name][slot] = Number.NaN;
    lacking = true;
  }
  return lacking;
}

function isMostlyThere(steps: readonly StepView[], phase: string, slot: number): boolean {
  const known = steps.filter(({ phases }) => (phases.get(phase)?.[slot] ?? 0) > 0).length;
  return known > 1 && known >= MOSTLY * steps.length;
}
