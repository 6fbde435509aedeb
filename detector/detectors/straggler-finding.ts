import { type Cause, newSubject } from '../../protocol/incident.js';
import { lateness } from '../pipeline/collectives.js';
import { peersIn, waitsTell } from '../pipeline/peers.js';
import { type BySlot, type StepView, WORK_CLASSES, type WorkClass } from '../pipeline/step-view.js';
import type { JobTopology } from '../pipeline/topology.js';
import { lowerMedian, mean, trimmedMean } from '../reference/statistics.js';
import type { Finding, JobWindow } from './finding.js';

/** A straggler while it lasts. Plain data. */
export interface Episode {
  key: string;
  /** The rank that decided comes first; those with the same onset and cause follow. */
  slots: number[];
  onsetStep: number;
  onsetNs: bigint;
  cause: Cause;
  /** Time lost so far, the time it was lost in (nanoseconds), and the number of steps. */
  lost: number;
  time: number;
  steps: number;
  /** What decided, at that moment. */
  attribution: Attribution;
  noise: number;
}

/** What the first rank's excess consists of; times are means a step in nanoseconds. */
export interface Attribution {
  cause: Cause;
  /** The phase that grew most; '' where no row shows it (a gap between phases). */
  phase: string;
  excess: number;
  byClass: Record<WorkClass, number>;
  /** How long the others waited for it; NaN where no collectives of its peers were recorded. */
  peersWait: number;
  /** Growth of the collectives' own transfer, for the runner-up; NaN where unknown. */
  transferGrowth: number;
  /** Its tokens over its peers'; NaN where unknown. */
  tokensRatio: number;
}

/** Which class of the rank's own work grew since the onset: against its peers where it has several, else its own past. */
export function attribute(window: JobWindow, slot: number, onset: number): Attribution {
  const since = window.views.filter((view) => view.step >= onset && !view.launchBound);
  const before = window.views.filter((view) => view.step < onset && !view.launchBound);
  const peers = peersOf(window, slot);
  const growth = (read: (view: StepView) => BySlot | undefined): number =>
    growthOf(since, before, slot, peers, (view, at) => read(view)?.[at] ?? 0);
  const byClass = Object.fromEntries(WORK_CLASSES.map((name) => [name, growth((view) => view.work[name])])) as Record<
    WorkClass,
    number
  >;
  const waits = since.map((view) => latenessOf(view, window.topology, slot));
  // A gap that no row explains is host time once the others have waited for it.
  if (!waits.every(Number.isNaN)) {
    const idle = Math.max(
      0,
      growth((view) => view.idle),
    );
    const gap = Math.max(
      0,
      growth((view) => view.gap),
    );
    const unfenced = Math.min(idle, unfencedCompute(before, slot, byClass.compute));
    byClass.compute += unfenced;
    byClass.host += gap + idle - unfenced;
  }
  const cause = WORK_CLASSES.reduce((best, name) => (byClass[name] > byClass[best] ? name : best));
  return {
    cause,
    phase: grownPhase(since, growth),
    excess: WORK_CLASSES.reduce((sum, name) => sum + byClass[name], 0),
    byClass,
    peersWait: mean(waits),
    transferGrowth: mean(since.map(transferOf)) - mean(before.map(transferOf)),
    tokensRatio: mean(
      since.map(
        (view) => (view.tokens[slot] as number) / lowerMedian(peers.map((peer) => view.tokens[peer] as number)),
      ),
    ),
  };
}

/** Where only some layers are fenced, the time between their phases is computing too, and grows as the fenced part does. */
function unfencedCompute(before: readonly StepView[], slot: number, growth: number): number {
  const usual = (read: (view: StepView) => BySlot): number => mean(before.map((view) => read(view)[slot] as number));
  return Math.max(0, (growth / usual((view) => view.work.compute)) * usual((view) => view.idle)) || 0;
}

function peersOf({ topology, views }: JobWindow, slot: number): number[] {
  const { sets } = peersIn(views.at(-1) as StepView, topology);
  return (sets.find((slots) => slots.includes(slot)) ?? []).filter((other) => other !== slot);
}

/** Mean growth of a quantity of the slot, nanoseconds a step. */
function growthOf(
  since: readonly StepView[],
  before: readonly StepView[],
  slot: number,
  peers: readonly number[],
  read: (view: StepView, slot: number) => number,
): number {
  const now = (view: StepView): number => zeroIfUnknown(read(view, slot));
  const others = (view: StepView): number => lowerMedian(peers.map((peer) => zeroIfUnknown(read(view, peer))));
  const alike = (view: StepView): StepView[] => before.filter((earlier) => earlier.graph[slot] === view.graph[slot]);
  const past = (view: StepView): number =>
    trimmedMean(alike(view).map((earlier) => now(earlier) * tokensScale(view, earlier, slot)));
  // One peer is no norm, but it tells how the work of both has changed since.
  const [peer = slot] = peers;
  const beside = (view: StepView): number => zeroIfUnknown(read(view, peer)) * peerScale(view, slot, peer);
  const pair = (view: StepView): number =>
    beside(view) + trimmedMean(alike(view).map((earlier) => now(earlier) - beside(earlier)));
  const reference = peers.length > 1 ? others : peers.length === 1 ? pair : past;
  const differences = since.map((view) => {
    const expected = reference(view);
    return now(view) - (Number.isNaN(expected) && peers.length > 0 ? others(view) : expected);
  });
  return zeroIfUnknown(trimmedMean(differences));
}

function tokensScale(view: StepView, earlier: StepView, slot: number): number {
  const scale = (view.tokens[slot] as number) / (earlier.tokens[slot] as number);
  return scale > 0 && Number.isFinite(scale) ? scale : 1;
}

function peerScale({ tokens }: StepView, slot: number, peer: number): number {
  const scale = (tokens[slot] as number) / (tokens[peer] as number);
  return scale > 0 && Number.isFinite(scale) ? scale : 1;
}

const zeroIfUnknown = (value: number): number => (Number.isNaN(value) ? 0 : value);

function latenessOf(view: StepView, topology: JobTopology, slot: number): number {
  const { byReplica } = peersIn(view, topology);
  let sum = Number.NaN;
  for (const group of view.groups) {
    const at = group.slots.indexOf(slot);
    if (at < 0 || !waitsTell(group, view, byReplica)) continue;
    sum = (Number.isNaN(sum) ? 0 : sum) + (lateness(group)[at] as number);
  }
  return sum;
}

function transferOf(view: StepView): number {
  const known = view.groups.filter((group) => group.sameStage && group.transfer >= 0);
  return known.length === 0 ? Number.NaN : known.reduce((sum, group) => sum + group.transfer, 0);
}

/** The phase of the rank's own work that grew most. */
function grownPhase(
  since: readonly StepView[],
  growth: (read: (view: StepView) => BySlot | undefined) => number,
): string {
  const comm = new Set(since.flatMap((view) => view.commPhases));
  let best = '';
  let most = 0;
  for (const phase of new Set(since.flatMap((view) => [...view.phases.keys()]))) {
    if (comm.has(phase) || phase === 'step') continue;
    const grown = growth((view) => view.phases.get(phase));
    if (grown > most) [best, most] = [phase, grown];
  }
  return best;
}

export function newEpisode(
  window: JobWindow,
  slots: number[],
  onset: number,
  noise: number,
): Omit<Episode, 'lost' | 'time' | 'steps'> {
  const first = slots[0] as number;
  const attribution = attribute(window, first, onset);
  const ranks = slots.map((slot) => window.topology.ranks[slot] as number).sort((a, b) => a - b);
  return {
    key: `ranks=${ranks.join(',')}`,
    slots,
    onsetStep: onset,
    onsetNs: window.views.find((view) => view.step >= onset)?.startNs ?? 0n,
    cause: attribution.cause,
    attribution,
    noise,
  };
}

const ms = (ns: number): number => Math.round(ns / 1e3) / 1e3;

export function findingOf(episode: Episode, window: JobWindow): Finding {
  const { topology } = window;
  const { attribution } = episode;
  const ranks = episode.slots.map((slot) => topology.ranks[slot] as number).sort((a, b) => a - b);
  const hosts = [...new Set(episode.slots.map((slot) => topology.hosts[slot] as string))].filter((host) => host !== '');
  const share = episode.time === 0 ? 0 : episode.lost / episode.time;
  const perStep = episode.lost / Math.max(1, episode.steps);
  const waited = !Number.isNaN(attribution.peersWait);
  return {
    kind: 'straggler',
    key: episode.key,
    subject: newSubject(topology.meta.job, topology.meta.run, { ranks, hosts, phase: attribution.phase || null }),
    cause: episode.cause,
    summary: summaryOf(ranks, episode, perStep, share),
    onsetStep: episode.onsetStep,
    onsetNs: episode.onsetNs,
    cost: {
      ms_per_step: ms(perStep),
      step_fraction: Math.round(share * 1e4) / 1e4,
      gpu_seconds: Math.round((episode.lost * topology.ranks.length) / 1e6) / 1e3,
    },
    confidence: confidenceOf(attribution),
    evidence: {
      own_work_excess_ms: ms(attribution.excess),
      ...Object.fromEntries(WORK_CLASSES.map((name) => [`${name}_excess_ms`, ms(attribution.byClass[name])])),
      ...(waited ? { others_wait_ms: ms(attribution.peersWait) } : {}),
      noise_share_of_step: Math.round(episode.noise * 1e5) / 1e5,
      steps: episode.steps,
    },
    runnerUp: runnerUpOf(attribution),
  };
}

const CLASS_WORDS: Record<string, string> = {
  compute: 'its compute',
  memory: 'its memory copies',
  data: 'its data loading',
  host: 'its host time between GPU phases',
};

function summaryOf(ranks: readonly number[], episode: Episode, perStep: number, share: number): string {
  const who = ranks.length === 1 ? `rank ${ranks[0]} makes` : `ranks ${ranks.join(', ')} make`;
  const { cause, attribution } = episode;
  const grown = ms(attribution.byClass[cause as WorkClass]);
  const phase = attribution.phase && cause === 'compute' ? ` (${attribution.phase})` : '';
  return `${who} the others wait ${ms(perStep)} ms a step (${Math.round(share * 100)} %): ${CLASS_WORDS[cause]}${phase} takes ${grown} ms longer`;
}

/** Waits that match the excess within 20 % leave no other explanation; without waits it is a guess. */
function confidenceOf({ excess, peersWait }: Attribution): number {
  if (Number.isNaN(peersWait)) return 0.6;
  return Math.abs(peersWait - excess) <= 0.2 * excess ? 0.95 : 0.8;
}

/** What else makes collectives long or a rank slow: the transfer itself, or more tokens. */
function runnerUpOf({ transferGrowth, peersWait, tokensRatio }: Attribution): { kind: string; why_not: string } {
  if (Number.isNaN(transferGrowth) || Number.isNaN(peersWait)) {
    const tokens = Number.isNaN(tokensRatio)
      ? 'tokens are unknown'
      : `its tokens are ${tokensRatio.toFixed(2)} x its peers'`;
    return { kind: 'load_imbalance', why_not: `${tokens} and its work is longer than those tokens explain` };
  }
  return {
    kind: 'nvlink_stall',
    why_not: `collectives' own transfer changed by ${ms(transferGrowth)} ms a step while the others waited ${ms(peersWait)} ms`,
  };
}
