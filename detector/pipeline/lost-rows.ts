import { servingTokens } from '../reference/decode-past.js';
import { type StepView, WORK_CLASSES } from './step-view.js';

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
  const last = past.slice(-STEPS);
  const phases = new Set(view.phases.keys());
  if (servingTokens(view) === undefined) for (const phase of last.at(-1)?.phases.keys() ?? []) phases.add(phase);
  const incomplete = new Set<number>();
  for (const phase of phases) {
    if (phase === 'step' || view.commPhases.includes(phase) || last.at(-1)?.commPhases.includes(phase)) continue;
    const sums = view.phases.get(phase);
    for (let slot = 0; slot < view.gap.length; slot++)
      if (!((sums?.[slot] ?? 0) > 0) && isMostlyThere(last, phase, slot)) incomplete.add(slot);
  }
  for (const slot of incomplete) for (const name of WORK_CLASSES) view.work[name][slot] = Number.NaN;
  return incomplete.size > 0;
}

function isMostlyThere(steps: readonly StepView[], phase: string, slot: number): boolean {
  const known = steps.filter(({ phases }) => (phases.get(phase)?.[slot] ?? 0) > 0).length;
  return known > 1 && known >= MOSTLY * steps.length;
}
