import type { PhaseKey } from './phase-table.js';
import type { Items } from './step.js';
import type { RankStep } from './step-rows.js';

/**
 * Time that the collectives of a key took once the last rank was there: the sum of each one's minimum over the ranks. Of
 * sampled ones an estimate for all; where ranks sampled differently, what the rank that waited least spent. -1 where
 * that cannot be told: a rank has not sent the step or not the same collectives, or the ranks' times come from different
 * clocks (a host's time of a collective is that of its launch).
 */
export function transferOf(
  key: PhaseKey,
  microbatch: number,
  ranks: readonly number[],
  byRank: ReadonlyMap<number, RankStep>,
): number {
  const all: Items[] = [];
  let source: string | undefined;
  for (const rank of ranks) {
    const found = byRank.get(rank);
    const items = found && itemsOf(found, key, microbatch);
    if (!found || !items || found.step.flags.partial || found.step.flags.lost) return -1;
    source ??= found.clock.source;
    if (found.clock.source !== source) return -1;
    all.push(items);
  }
  const [first, ...others] = all;
  if (!first) return -1;
  if (others.some((items) => !sameCollectives(first, items)))
    return all.some(isSampled) ? Math.round(Math.min(...all.map(whole))) : -1;
  let sum = 0;
  for (let i = 0; i < first.durations.length; i++) {
    let shortest = first.durations[i] as number;
    for (const { durations } of others) if ((durations[i] as number) < shortest) shortest = durations[i] as number;
    sum += shortest * (first.weights[i] as number);
  }
  return Math.round(sum);
}

const isSampled = ({ weights }: Items): boolean => weights.some((weight) => weight !== 1);

/** Estimate for all collectives of a rank. */
const whole = ({ durations, weights }: Items): number =>
  durations.reduce((sum, duration, i) => sum + duration * (weights[i] as number), 0);

function itemsOf({ step, table }: RankStep, key: PhaseKey, microbatch: number): Items | undefined {
  const index = table.keyOfText(key.text);
  return index === undefined ? undefined : step.parts.get(microbatch)?.sums.items[index];
}

function sameCollectives(a: Items, b: Items): boolean {
  if (a.sequences.length !== b.sequences.length) return false;
  return a.sequences.every((sequence, i) => sequence === b.sequences[i] && a.weights[i] === b.weights[i]);
}
