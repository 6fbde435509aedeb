import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import { newSpell, observeSpell, type Spell, spellRule } from '../reference/spell.js';
import { lowerMedian, mean, median } from '../reference/statistics.js';
import { episodeFinding, percent, rounded } from './episode-finding.js';
import type { Detector, Finding, JobWindow } from './finding.js';
import type { DetectorParams } from './params.js';

/**
 * The scheduler or router spreads requests unevenly: some data-parallel ranks have queues while others have none.
 *
 * Signature (SGLang issue 6872, vLLM issue 36748): ranks have held EXCESS times as many requests as most for some time,
 * and some of them waiting; at least one has a quarter of what a rank usually runs or more waiting, while another rank has
 * nothing waiting; in nearly all of the last samples and for some seconds. Healthy are 6 of 10 requests on one of two
 * engines, 1.5 times the other's (vLLM PR 47420); a queue behind a long prompt where all hold as many; and a first burst
 * that goes to one rank until statistics come in, 100 to 200 ms after the start (vLLM PR 22910). What is lost is
 * 1 - mean load / largest load. Named are those that have held EXCESS times as many since it began: queues come and go.
 */
export const schedImbalance: Detector<SchedState> = {
  kind: 'sched_imbalance',
  initial: () => ({ spell: newSpell(), held: [], queued: [], total: [], queues: [] }),
  step,
};

export interface SchedState {
  spell: Spell;
  /** By slot: running means of the requests it holds, and of those of them that wait. */
  held: number[];
  queued: number[];
  /** By slot: requests held since the episode began, summed over its steps. */
  total: number[];
  /** Of the ranks that have held too many, at the last hit. */
  queues: { slot: number; waiting: number; running: number; kv: number }[];
}

const RULE = { window: 20, quiet: 20 };
const EXCESS = 1.6;
const SHARE_OF_RUNNING = 0.25;
/** Of the running mean: it remembers some 50 samples, long against what one long request makes of a rank. */
const RATE = 0.02;
/** A rank whose mean queue is shorter has none for more than half of the time. */
const QUEUED = 0.5;

function step(state: SchedState, { topology, views }: JobWindow, { sched_imbalance }: DetectorParams): Finding[] {
  const view = views.at(-1) as StepView;
  observe(state, view, sched_imbalance);
  const { episode } = state.spell;
  if (!episode || Number(view.startNs - episode.onsetNs) < sched_imbalance.min_seconds * 1e9) return [];
  const queues = state.queues.toSorted(
    (a, b) => (topology.ranks[a.slot] as number) - (topology.ranks[b.slot] as number),
  );
  const ranks = queues.map(({ slot }) => topology.ranks[slot] as number);
  const waiting = queues.map((queue) => queue.waiting);
  return [
    episodeFinding('sched_imbalance', topology, episode, {
      key: `onset=${episode.onsetStep}`,
      subject: { ranks },
      cause: 'workload',
      summary: ({ share }) =>
        `ranks ${ranks.join(', ')} hold more requests than the others, ${waiting.join(', ')} of them waiting, while another rank has none waiting: ${percent(share)} % of the capacity is idle`,
      confidence: 0.9,
      evidence: {
        waiting,
        running: queues.map((queue) => queue.running),
        kv_usage: queues.map((queue) => rounded(queue.kv)),
      },
      runnerUp: { kind: 'straggler', why_not: 'these ranks have more requests, not longer steps for as many' },
    }),
  ];
}

const runningMean = (known: number | undefined, value: number): number => (1 - RATE) * (known ?? value) + RATE * value;

function observe(state: SchedState, view: StepView, params: DetectorParams['sched_imbalance']): void {
  const { running, waiting, kv_usage } = view.serving;
  const slots = [...running.keys()].filter((slot) => (running[slot] as number) >= 0 && (waiting[slot] as number) >= 0);
  if (slots.length < 2) return;
  const loads = slots.map((slot) => (running[slot] as number) + (waiting[slot] as number));
  slots.forEach((slot, i) => {
    state.held[slot] = runningMean(state.held[slot], loads[i] as number);
    state.queued[slot] = runningMean(state.queued[slot], waiting[slot] as number);
  });
  const held = slots.map((slot) => state.held[slot] as number);
  const many = EXCESS * lowerMedian(held);
  const over = slots.filter((slot, i) => (held[i] as number) >= many && (state.queued[slot] as number) >= QUEUED);
  const much = Math.max(params.min_waiting, SHARE_OF_RUNNING * median(slots.map((slot) => running[slot] as number)));
  const hit =
    over.some((slot) => (waiting[slot] as number) >= much) && slots.some((slot) => (waiting[slot] as number) === 0);
  const idle = hit ? 1 - mean(loads) / Math.max(...loads) : 0;
  if (!state.spell.episode) state.total = [];
  slots.forEach((slot, i) => {
    state.total[slot] = (state.total[slot] ?? 0) + (loads[i] as number);
  });
  const totals = slots.map((slot) => state.total[slot] as number);
  const usual = EXCESS * lowerMedian(totals);
  if (hit)
    state.queues = slots
      .filter((_, i) => (totals[i] as number) >= usual)
      .map((slot) => ({
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
