import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import { newSpell, observeSpell, type Spell, spellRule } from '../reference/spell.js';
import { mean, median } from '../reference/statistics.js';
import { episodeFinding, percent, rounded } from './episode-finding.js';
import type { Detector, Finding, JobWindow } from './finding.js';
import type { DetectorParams } from './params.js';

/**
 * The scheduler or router spreads requests unevenly: some data-parallel ranks have queues while others have none.
 *
 * Signature (SGLang issue 6872, vLLM issue 36748): requests wait on some ranks, a quarter of what a rank usually runs or more, while
 * at least one rank has nothing waiting; in nearly all of the last samples and for some seconds, since a first burst goes
 * to one rank until statistics come in. What is lost is 1 - mean load / largest load.
 */
export const schedImbalance: Detector<SchedState> = {
  kind: 'sched_imbalance',
  initial: () => ({ spell: newSpell(), queues: [], since: null }),
  step,
};

export interface SchedState {
  spell: Spell;
  /** By slot: requests waiting, at the last sample with a hit; and of which slots these were overloaded. */
  queues: { slot: number; waiting: number; running: number; kv: number }[];
  /** Start of the present run of hits. */
  since: bigint | null;
}

const RULE = { window: 20, quiet: 20 };
const SHARE_OF_RUNNING = 0.25;

function step(state: SchedState, { topology, views }: JobWindow, { sched_imbalance }: DetectorParams): Finding[] {
  const view = views.at(-1) as StepView;
  observe(state, view, sched_imbalance);
  const { episode } = state.spell;
  if (!episode || Number(view.startNs - episode.onsetNs) < sched_imbalance.min_seconds * 1e9) return [];
  const ranks = state.queues.map(({ slot }) => topology.ranks[slot] as number).sort((a, b) => a - b);
  const waiting = state.queues.map((queue) => queue.waiting);
  return [
    episodeFinding('sched_imbalance', topology, episode, {
      key: `onset=${episode.onsetStep}`,
      subject: { ranks },
      cause: 'workload',
      summary: ({ share }) =>
        `requests wait on ranks ${ranks.join(', ')} (${waiting.join(', ')}) while others have none waiting: ${percent(share)} % of the capacity is idle`,
      confidence: 0.9,
      evidence: {
        waiting,
        running: state.queues.map((queue) => queue.running),
        kv_usage: state.queues.map((queue) => rounded(queue.kv)),
      },
      runnerUp: { kind: 'straggler', why_not: 'these ranks have more requests, not longer steps for as many' },
    }),
  ];
}

function observe(state: SchedState, view: StepView, params: DetectorParams['sched_imbalance']): void {
  const { running, waiting, kv_usage } = view.serving;
  const slots = [...running.keys()].filter((slot) => (running[slot] as number) >= 0 && (waiting[slot] as number) >= 0);
  if (slots.length < 2) return;
  const usual = median(slots.map((slot) => running[slot] as number));
  const much = Math.max(params.min_waiting, SHARE_OF_RUNNING * usual);
  const over = slots.filter((slot) => (waiting[slot] as number) >= much);
  const hit = over.length > 0 && slots.some((slot) => waiting[slot] === 0);
  const loads = slots.map((slot) => (running[slot] as number) + (waiting[slot] as number));
  const idle = hit ? 1 - mean(loads) / Math.max(...loads) : 0;
  if (hit)
    state.queues = over.map((slot) => ({
      slot,
      waiting: waiting[slot] as number,
      running: running[slot] as number,
      kv: kv_usage[slot] as number,
    }));
  const time = stepTimeOf(view);
  observeSpell(
    state.spell,
    { step: view.step, startNs: view.startNs, lost: idle * time, time, hit },
    spellRule(RULE, params),
  );
}
