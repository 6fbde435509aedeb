import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import { type JobTopology, slotsByStage } from '../pipeline/topology.js';
import { hasHits, newSpell, observeSpell, type Spell, spellRule } from '../reference/spell.js';
import { mean } from '../reference/statistics.js';
import { episodeFinding, percent, rounded } from './episode-finding.js';
import type { Detector, Finding, JobWindow } from './finding.js';
import type { DetectorParams } from './params.js';

/**
 * Ranks get unequal amounts of work: sequence lengths, data or experts. No rank is at fault.
 *
 * Signature: among ranks that do the same kind of work the tokens differ (largest over mean 1.05), and the rank that works
 * longest is one that has most tokens. What is lost is the longest work over the mean, in most of the last steps. Ranks are
 * listed only where the same minority always has most (a router, experts), else the job. Chance spreads work unevenly too,
 * and some per cent of a step go that way in every job: 5 % of it count, and 2 % where always the same ranks have most,
 * which chance does not do.
 */
export const loadImbalance: Detector<LoadState> = {
  kind: 'load_imbalance',
  initial: () => ({ spell: newSpell(), heavy: [], ratio: 0, explained: 0 }),
  step,
};

export interface LoadState {
  spell: Spell;
  /** Slots that had most tokens, in each of the last uneven steps. */
  heavy: number[][];
  ratio: number;
  explained: number;
}

/** The tenth uneven step is within 12 of the first, though two in between are even by chance. */
const RULE = { window: 16, quiet: 20 };
/** Of the smallest effect, where the same ranks always have most. */
const STEADY = 0.4;
/** A rank that has most tokens in nearly every step has more by design of the router: 9 of 10 times one of two has by chance in 2 %. */
const ALWAYS = 0.9;
/** Ranks have most whose tokens lie in the upper half between the mean and the largest. */
const MOST = 0.5;

function step(state: LoadState, { topology, views }: JobWindow, { load_imbalance }: DetectorParams): Finding[] {
  const view = views.at(-1) as StepView;
  observe(state, view, topology, load_imbalance);
  const { episode } = state.spell;
  if (!episode) return [];
  const named = steadySlots(state, topology, spellRule(RULE, load_imbalance).hits)
    .map((slot) => topology.ranks[slot] as number)
    .sort((a, b) => a - b);
  return [
    episodeFinding('load_imbalance', topology, episode, {
      subject: { ranks: named },
      cause: 'workload',
      summary: ({ msPerStep, share }) =>
        `work is spread unevenly: the busiest rank has ${rounded(state.ratio, 2)} x the mean tokens, ${msPerStep} ms of a step are lost (${percent(share)} %)${named.length > 0 ? `, always with ranks ${named.join(', ')} ahead` : ''}`,
      confidence: 0.9,
      evidence: { tokens_max_over_mean: rounded(state.ratio, 2), steps_explained_by_tokens: state.explained },
      runnerUp: {
        kind: 'straggler',
        why_not:
          'the rank that works longest is the one with most tokens, and its time for a token is that of the others',
      },
    }),
  ];
}

type Params = DetectorParams['load_imbalance'];

function observe(state: LoadState, view: StepView, topology: JobTopology, params: Params): void {
  let [lost, ratio] = [0, 0];
  const heavy: number[] = [];
  for (const all of slotsByStage(topology).values()) {
    // A rank that has sent nothing has not got no tokens.
    const slots = all.filter((slot) => !Number.isNaN(view.stepTime[slot]));
    const uneven = unevenness(view, slots, params.ratio);
    if (!uneven) continue;
    heavy.push(...uneven.heavy);
    if (uneven.lost > lost) [lost, ratio] = [uneven.lost, uneven.ratio];
  }
  const hit = lost > 0;
  if (hit) {
    if (!state.spell.episode && !hasHits(state.spell)) Object.assign(state, { heavy: [], explained: 0 });
    state.explained++;
    state.heavy = [...state.heavy, heavy].slice(-RULE.window);
    state.ratio += (ratio - state.ratio) / state.heavy.length;
  }
  const rule = spellRule(RULE, params);
  const share = rule.share * (hit && steadySlots(state, topology, rule.hits).length > 0 ? STEADY : 1);
  const entry = { step: view.step, startNs: view.startNs, lost, time: stepTimeOf(view), hit };
  observeSpell(state.spell, entry, { ...rule, share });
}

/** The minority that had most in nearly every uneven step; empty where it changes, or they are not few. */
function steadySlots({ heavy }: LoadState, topology: JobTopology, hits: number): number[] {
  if (heavy.length < hits) return [];
  const counts = new Map<number, number>();
  for (const slot of heavy.flat()) counts.set(slot, (counts.get(slot) ?? 0) + 1);
  const steady = [...counts].filter(([, count]) => count >= ALWAYS * heavy.length).map(([slot]) => slot);
  return steady.length < topology.ranks.length / 2 ? steady : [];
}

/** Time that unequal tokens cost among peers in a step; undefined where tokens are equal, unknown or do not explain it. */
function unevenness(
  view: StepView,
  slots: readonly number[],
  least: number,
): { lost: number; ratio: number; heavy: number[] } | undefined {
  if (slots.length < 2) return undefined;
  let [ratio, tokens] = [least, undefined as number[] | undefined];
  const work = slots.map(() => 0);
  for (const [phase, counts] of view.phaseTokens) {
    const own = slots.map((slot) => counts[slot] as number);
    const uneven = Math.max(...own) / mean(own);
    if (!(uneven >= least)) continue;
    if (uneven >= ratio) [ratio, tokens] = [uneven, own];
    const times = view.phases.get(phase);
    slots.forEach((slot, i) => {
      work[i] = (work[i] as number) + ((times?.[slot] as number) || 0);
    });
  }
  if (!tokens) return undefined;
  const [most, usual] = [Math.max(...tokens), mean(tokens)];
  const longest = work.indexOf(Math.max(...work));
  const enough = usual + MOST * (most - usual);
  if ((tokens[longest] as number) < enough) return undefined;
  return {
    lost: (work[longest] as number) - mean(work),
    ratio,
    heavy: slots.filter((_, i) => ((tokens as number[])[i] as number) > enough),
  };
}
