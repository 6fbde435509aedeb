import { newSubject } from '../../protocol/incident.js';
import { ownWork, type StepView } from '../pipeline/step-view.js';
import { newRing, pushRing, type Ring, ringValues } from '../reference/ring.js';
import { median } from '../reference/statistics.js';
import type { Detector, Finding, JobWindow } from './finding.js';

/**
 * Durations that jump by a factor of exactly 1,000 (or a power of it): a collector was upgraded to another unit, nothing
 * became slower. Said once for all ranks it happened to; such ranks are no stragglers.
 */
export const unitJump: Detector<UnitJumpState> = {
  kind: 'data_quality',
  initial: () => ({ past: [], jumped: [], since: null }),
  step,
};

export interface UnitJumpState {
  /** By slot: own work of the last steps before any jump. */
  past: Ring[];
  /** By slot: steps in a row that lie a power of 1,000 from the past. */
  jumped: number[];
  since: { step: number; startNs: bigint; factor: number } | null;
}

const PAST_STEPS = 16;
const CERTAIN_STEPS = 3;
/** A real slowdown that comes so close to a power of 1,000, three times in a row, is not to be expected. */
const TOLERANCE = 0.02;
const FAR = 100;

function step(state: UnitJumpState, { topology, views }: JobWindow): Finding[] {
  const view = views.at(-1) as StepView;
  topology.ranks.forEach((_, slot) => {
    const work = ownWork(view, slot);
    const past = (state.past[slot] ??= newRing(PAST_STEPS));
    const factor = factorOf(work, past);
    state.jumped[slot] = factor === 1 ? 0 : (state.jumped[slot] ?? 0) + 1;
    if (factor === 1 && !Number.isNaN(work)) pushRing(past, work);
    else if (factor !== 1) state.since ??= { step: view.step, startNs: view.startNs, factor };
  });
  const ranks = topology.ranks.filter((_, slot) => (state.jumped[slot] as number) >= CERTAIN_STEPS);
  if (state.jumped.every((steps) => steps === 0)) state.since = null;
  if (ranks.length === 0 || !state.since) return [];
  const { step: onsetStep, startNs, factor } = state.since;
  const { job, run } = topology.meta;
  return [
    {
      kind: 'data_quality',
      key: 'source=unit_jump',
      subject: newSubject(job, run, { ranks: ranks.toSorted((a, b) => a - b), source: 'unit_jump' }),
      cause: 'unknown',
      summary: `durations of ${ranks.length} ranks became ${factor} x as long from one step to the next: another unit, not slower work`,
      onsetStep,
      onsetNs: startNs,
      cost: { ms_per_step: 0, step_fraction: 0, gpu_seconds: 0 },
      confidence: 1,
      evidence: { factor },
      runnerUp: {
        kind: 'straggler',
        why_not: 'a slowdown by a power of 1,000 within 2 %, step after step, is a change of unit',
      },
    },
  ];
}

/** The last value tells almost always that nothing happened; only else is the median looked for. */
function factorOf(work: number, past: Ring): number {
  const last = past.values[(past.count + PAST_STEPS - 1) % PAST_STEPS] as number;
  if (past.count === 0 || (work < FAR * last && last < FAR * work)) return 1;
  return powerOf1000(work / median(ringValues(past)));
}

/** 1000, 0.001 or another power of it that the ratio is; 1: none. */
function powerOf1000(ratio: number): number {
  const exponent = Math.round(Math.log10(ratio) / 3);
  const power = 1000 ** exponent;
  return Number.isFinite(power) && exponent !== 0 && Math.abs(ratio / power - 1) < TOLERANCE ? power : 1;
}
