import type { Noise } from './noise.js';

/**
 * One-sided CUSUM (Page 1954) of a log-likelihood ratio, one a slot. A step adds its standardised loss less ALLOWANCE,
 * but never more than log(P(slow step | straggler) / P(slow step | noise)): a spike, however large, is worth what its
 * rarity in this job says, so that pauses now and then are forgotten and three slow steps in a row, or every second one
 * slow, are believed. By Wald's bound a rank that only makes noise raises an alarm less than once in e^ALARM = 160,000
 * steps; for Gaussian noise once in exp(2k(h + 1.17)) / 2k^2 = 1e11 (Siegmund). Plain data.
 */
export interface Cusum {
  sum: number;
  /** Step at which the sum last left zero, and the first step since that was clearly slow. */
  since: number;
  firstHit: number;
  /** Since then: steps, time lost in them and time they took, nanoseconds. */
  steps: number;
  lost: number;
  time: number;
}

export const ALLOWANCE = 1;
export const ALARM = 12;
/** A step is slow from so many times the noise on. */
export const HIT = 3;
/** P(slow step | straggler): less than 1, since some stragglers are slow in every second step only. */
const HIT_RATE = 0.7;

export const newCusum = (): Cusum => ({ sum: 0, since: -1, firstHit: -1, steps: 0, lost: 0, time: 0 });

/** Takes in one step: `lost` of its `time` (nanoseconds), against the noise of such shares. */
export function accumulate(cusum: Cusum, step: number, lost: number, time: number, noise: Noise): void {
  const standardised = lost / time / noise.scale;
  const most = Math.log(HIT_RATE / noise.hitRate);
  cusum.sum = Math.max(0, cusum.sum + Math.min(most, standardised - ALLOWANCE));
  if (cusum.sum === 0) {
    if (cusum.since >= 0) Object.assign(cusum, newCusum());
    return;
  }
  if (cusum.since < 0) cusum.since = step;
  if (cusum.firstHit < 0 && standardised >= HIT) cusum.firstHit = step;
  cusum.steps++;
  cusum.lost += lost;
  cusum.time += time;
}

/** When it began: a slow step, not the noise before it. */
export const onsetOf = (cusum: Cusum): number => (cusum.firstHit >= 0 ? cusum.firstHit : cusum.since);

/** Share of the time that was lost since the sum left zero. */
export const lostShare = (cusum: Cusum): number => (cusum.time === 0 ? 0 : cusum.lost / cusum.time);
