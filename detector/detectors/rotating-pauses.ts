import { lateness } from '../pipeline/collectives.js';
import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import { newSpell, observeSpell, type Spell } from '../reference/spell.js';
import { lowerMedian } from '../reference/statistics.js';
import { episodeFinding, ms, percent } from './episode-finding.js';
import type { Detector, Finding, JobWindow } from './finding.js';

/**
 * In nearly every step another rank pauses and all wait for it: garbage collections of many processes that nobody has
 * brought together. No rank is at fault, and no phase has grown.
 *
 * Signature (marin-community/marin 9205: 16.7 s a step, 18.5 s with a full collection of 1.4 s on one rank of many in turn):
 * a rank's host time, or its time between two steps, exceeds that of most ranks by 5 % of the step, its peers wait in
 * collectives for as much, in 12 of the last 16 steps, and no rank is the one in more than half of them (a rank that is
 * would be a straggler). Such a loss never pages: it is one of all steps, and of the program.
 */
export const rotatingPauses: Detector<RotatingState> = {
  kind: 'transient_stall',
  initial: () => ({ spell: newSpell(), ranks: [], pauseMs: 0 }),
  step,
};

export interface RotatingState {
  spell: Spell;
  /** Slots that paused in the last steps; -1 none. */
  ranks: number[];
  pauseMs: number;
}

const STEPS = 16;
const MIN_SHARE = 0.05;
const RULE = { window: STEPS, hits: 12, share: MIN_SHARE, quiet: STEPS };
/** Of fewer it cannot be said what most do. */
const MIN_RANKS = 3;

function step(state: RotatingState, { topology, views }: JobWindow): Finding[] {
  const view = views.at(-1) as StepView;
  if (topology.ranks.length < MIN_RANKS || view.launchBound) return [];
  observe(state, view);
  const { episode } = state.spell;
  const among = new Set(state.ranks.filter((slot) => slot >= 0)).size;
  if (!episode || !rotates(state.ranks)) return [];
  return [
    episodeFinding('transient_stall', topology, episode, {
      key: 'rotating',
      cause: 'host',
      summary: ({ msPerStep, share }) =>
        `in nearly every step another rank pauses for about ${state.pauseMs} ms between its phases, and all wait: ${msPerStep} ms a step are lost (${percent(share)} %)`,
      confidence: 0.85,
      evidence: { pause_ms: state.pauseMs, ranks_that_paused: among, of_steps: state.ranks.length },
      runnerUp: {
        kind: 'straggler',
        why_not: `it was ${among} different ranks in the last ${state.ranks.length} steps`,
      },
    }),
  ];
}

function observe(state: RotatingState, view: StepView): void {
  const time = stepTimeOf(view);
  const host = view.gap.map((gap, slot) => (gap || 0) + (view.work.host[slot] as number));
  const usual = lowerMedian(host);
  const late = [...host.keys()].filter((slot) => (host[slot] as number) - usual > MIN_SHARE * time);
  const waits = late.length > 0 ? waitedFor(view) : [];
  let [longest, who] = [0, -1];
  for (const slot of late) {
    const lost = Math.min((host[slot] as number) - usual, waits[slot] as number);
    if (lost > longest) [longest, who] = [lost, slot];
  }
  const hit = longest > MIN_SHARE * time;
  state.ranks = [...state.ranks, hit ? who : -1].slice(-STEPS);
  if (hit) state.pauseMs = ms(longest);
  observeSpell(state.spell, { step: view.step, startNs: view.startNs, lost: hit ? longest : 0, time, hit }, RULE);
}

/** By slot: how long its peers waited for it, nanoseconds. */
function waitedFor(view: StepView): number[] {
  const waits = new Array<number>(view.gap.length).fill(0);
  for (const group of view.groups) {
    if (!group.sameStage) continue;
    lateness(group).forEach((late, i) => {
      const slot = group.slots[i] as number;
      waits[slot] = Math.max(waits[slot] as number, late);
    });
  }
  return waits;
}

function rotates(ranks: readonly number[]): boolean {
  const counts = new Map<number, number>();
  for (const slot of ranks) if (slot >= 0) counts.set(slot, (counts.get(slot) ?? 0) + 1);
  const hits = ranks.filter((slot) => slot >= 0).length;
  return 2 * Math.max(0, ...counts.values()) <= hits;
}
