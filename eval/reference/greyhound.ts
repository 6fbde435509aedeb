import { entries, iterationTimes, middle, ownTimes, type StepTimes, type Timeline, transferOf } from '../timeline.js';
import { changeProbabilities } from './change-point.js';
import { type Alarm, episodes, type Method } from './method.js';

const PROBABILITY = 0.9;
const DEGRADATION = 1.1;
const SUSPICIOUS = 1.1;
/** Iterations on each side of a change point that its verification compares. */
const VERIFIED = 10;
const HAZARD = 1 / 250;
const RECENT = 3;

/**
 * Greyhound: a change point of the iteration time (BOCD), verified where the mean has risen by 10 %; then communicators of
 * the same size and volume that take more than 1.10 x their median, else ranks whose own time does.
 */
export const greyhound: Method = {
  name: 'Greyhound',
  rule: `change point of iteration time, P > ${PROBABILITY} and +10 %; then communicators, else ranks, > ${SUSPICIOUS} x median`,
  claims: ['straggler', 'comm_slow', 'nvlink_stall'],
  workloads: ['training', 'serving'],
  detect(timeline) {
    const times = iterationTimes(timeline);
    const alarms: Alarm[] = [];
    let last = Number.NEGATIVE_INFINITY;
    for (const [i, probability] of changeProbabilities(times, HAZARD, RECENT).entries()) {
      const change = i - RECENT + 1;
      if (probability <= PROBABILITY || change < VERIFIED || i - last < VERIFIED) continue;
      const before = mean(times.slice(change - VERIFIED, change));
      const end = change + VERIFIED;
      if (end > times.length || mean(times.slice(change, end)) < DEGRADATION * before) continue;
      last = i;
      alarms.push(...localise(timeline, timeline.steps.slice(change, end)));
    }
    return episodes(alarms);
  },
};

function localise(timeline: Timeline, window: readonly StepTimes[]): Alarm[] {
  const step = window.at(-1)?.step ?? 0;
  const groups = slowGroups(timeline, window);
  if (groups.length > 0) return groups.map((name) => alarmOf(timeline, name, step));
  const own = medianByRank(window.map(ownTimes));
  const limit = SUSPICIOUS * middle(own);
  const ranks = entries(own).flatMap(([rank, time]) => (time > limit ? [rank] : []));
  return ranks.length > 0 ? [{ kinds: ['straggler'], step, ranks }] : [];
}

function slowGroups({ groups }: Timeline, window: readonly StepTimes[]): string[] {
  const names = new Set(window.flatMap((step) => [...step.groups.keys()]));
  const alike = new Map<string, { name: string; time: number }[]>();
  for (const name of names) {
    const seen = window.flatMap((step) => step.groups.get(name) ?? []);
    const key = `${groups[name]?.length} ${middle(seen.map(({ bytes }) => bytes))}`;
    alike.set(key, [...(alike.get(key) ?? []), { name, time: middle(seen.map(transferOf)) }]);
  }
  return [...alike.values()].flatMap((peers) => {
    const limit = SUSPICIOUS * middle(peers.map(({ time }) => time));
    return peers.flatMap(({ name, time }) => (time > limit ? [name] : []));
  });
}

/** A communicator within a host is slow for its NVLink, one of several for the network. */
export function alarmOf({ groups, hostOf }: Timeline, name: string, step: number): Alarm {
  const ranks = groups[name] ?? [];
  const hosts = new Set(ranks.map((rank) => hostOf.get(rank)));
  return { kinds: [hosts.size > 1 ? 'comm_slow' : 'nvlink_stall'], step, ranks };
}

function medianByRank(rows: readonly (readonly number[])[]): number[] {
  const longest = Math.max(0, ...rows.map((row) => row.length));
  return Array.from({ length: longest }, (_, rank) => middle(rows.map((row) => row[rank] as number)));
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
