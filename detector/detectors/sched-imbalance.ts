import { type StepView, stepTimeOf } from '../pipeline/step-view.js';
import { newSpell, observeSpell, type Spell, type SpellEpisode, spellRule } from '../reference/spell.js';
import { lowerMedian, mean, median } from '../reference/statistics.js';
import { episodeFinding, percent, rounded } from './episode-finding.js';
import type { Detector, Finding, JobWindow } from './finding.js';
import type { DetectorParams } from './params.js';

/**
 * The scheduler or router spreads requests unevenly: some data-parallel ranks have queues while others have none.
 *
 * Signature (SGLang issue 6872, vLLM issue 36748): requests wait on a rank that holds twice as many as most ranks
 * do, while at least one rank has nothing waiting; on the same rank in nearly all of the last samples, and on at least
 * one of them a quarter of what a rank usually runs or more. 6 of 10 requests on one of two engines are healthy (1.2
 * times as many as on average, 1.5 times the other's: vLLM PR 47420), and so is a queue behind one long prompt where all
 * hold as many. Until statistics come in, 100 to 200 ms after the start, a first burst goes to one rank (vLLM PR 22910):
 * it must go on for two seconds, or the rank must still be sent requests half a second after it began to be overloaded. What is lost
 * is 1 - mean load / largest load.
 */
export const schedImbalance: Detector<SchedState> = {
  kind: 'sched_imbalance',
  initial: () => ({ overloaded: new Map(), held: [], open: false }),
  step,
};

export interface SchedState {
  /** By slot. */
  overloaded: Map<number, Overload>;
  /** By slot: requests that it held, running or waiting, at the last sample. */
  held: number[];
  open: boolean;
}

interface Overload {
  spell: Spell;
  /** Start of the last step in which it was overloaded and got more. */
  sentNs: bigint;
  /** Of the last sample in which it was overloaded. */
  waiting: number;
  running: number;
  kv: number;
}

const RULE = { window: 20, quiet: 20 };
const EXCESS = 2;

type Params = DetectorParams['sched_imbalance'];

function step(state: SchedState, { topology, views }: JobWindow, { sched_imbalance }: DetectorParams): Finding[] {
  const view = views.at(-1) as StepView;
  observe(state, view, sched_imbalance);
  const { min_seconds, min_waiting } = sched_imbalance;
  const lasting = [...state.overloaded].filter(([, { spell }]) => spell.episode !== null).sort(([a], [b]) => a - b);
  const onset = ({ spell }: Overload): bigint => (spell.episode as SpellEpisode).onsetNs;
  const slots = lasting.map(([slot]) => slot);
  const queues = lasting.map(([, overload]) => overload);
  const lasts = (queue: Overload): boolean =>
    Number(view.startNs - onset(queue)) >= min_seconds * 1e9 ||
    4 * Number(queue.sentNs - onset(queue)) >= min_seconds * 1e9;
  const counts = (queue: Overload): boolean => queue.waiting >= Math.max(min_waiting, aQuarter(view));
  state.open = queues.some(lasts) && (state.open || queues.some(counts));
  if (!state.open) return [];
  const { episode } = queues.reduce((first, queue) => (onset(queue) < onset(first) ? queue : first)).spell;
  const ranks = slots.map((slot) => topology.ranks[slot] as number).sort((a, b) => a - b);
  const waiting = queues.map((queue) => queue.waiting);
  return [
    episodeFinding('sched_imbalance', topology, episode as SpellEpisode, {
      subject: { ranks },
      cause: 'workload',
      summary: ({ share }) =>
        `requests wait on ranks ${ranks.join(', ')} (${waiting.join(', ')}) while others have none waiting: ${percent(share)} % of the capacity is idle`,
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

/** Of what a rank usually runs. */
const aQuarter = ({ serving }: StepView): number => 0.25 * median(serving.running) || 0;

function observe(state: SchedState, view: StepView, params: Params): void {
  const { running, waiting, kv_usage } = view.serving;
  const slots = [...running.keys()].filter((slot) => (running[slot] as number) >= 0 && (waiting[slot] as number) >= 0);
  if (slots.length < 2) return;
  const held = slots.map((slot) => (running[slot] as number) + (waiting[slot] as number));
  const most = EXCESS * lowerMedian(held);
  const idles = slots.some((slot) => waiting[slot] === 0);
  const time = stepTimeOf(view);
  const rule = spellRule(RULE, params);
  const lost = time * (1 - mean(held) / Math.max(...held));
  for (const [i, slot] of slots.entries()) {
    const hit = idles && (waiting[slot] as number) > 0 && (held[i] as number) >= most;
    const known = state.overloaded.get(slot);
    if (!hit && !known) continue;
    const overload = known ?? { spell: newSpell(), sentNs: 0n, waiting: 0, running: 0, kv: 0 };
    state.overloaded.set(slot, overload);
    if (hit) {
      const facts = {
        waiting: waiting[slot] as number,
        running: running[slot] as number,
        kv: kv_usage[slot] as number,
      };
      Object.assign(overload, facts);
      if ((held[i] as number) > (state.held[slot] ?? Number.POSITIVE_INFINITY)) overload.sentNs = view.startNs;
    }
    observeSpell(overload.spell, { step: view.step, startNs: view.startNs, lost: hit ? lost : 0, time, hit }, rule);
    if (!overload.spell.recent.some((recent) => recent.hit)) state.overloaded.delete(slot);
  }
  for (const [i, slot] of slots.entries()) state.held[slot] = held[i] as number;
}
