import type { IncidentKind } from '../../protocol/incident.js';
import { entries, iterationTimes, middle, type StepTimes } from '../timeline.js';
import { type Alarm, episodes, type Method } from './method.js';

const TRIGGER = 1.05;
const TRIGGER_STEPS = 50;
const PROFILED = 10;
const LEAST_SHARE = 0.01;
const DEVIATIONS = 5;

/**
 * EROICA: once the mean of the last 50 iterations is 5 % above the best so far, every function of every rank is profiled; it is
 * abnormal if it makes up more than 1 % of the step and its time is above median + 5 MAD of the ranks.
 */
export const eroica: Method = {
  name: 'EROICA',
  rule: `mean of ${TRIGGER_STEPS} iterations > ${TRIGGER} x best; then a phase > median + ${DEVIATIONS} MAD of ranks`,
  claims: ['straggler', 'comm_slow', 'nvlink_stall'],
  workloads: ['training', 'serving'],
  detect(timeline) {
    const times = iterationTimes(timeline);
    const alarms: Alarm[] = [];
    let best = Number.POSITIVE_INFINITY;
    for (let end = TRIGGER_STEPS; end <= times.length; end++) {
      const now = times.slice(end - TRIGGER_STEPS, end).reduce((sum, time) => sum + time, 0) / TRIGGER_STEPS;
      best = Math.min(best, now);
      if (now > TRIGGER * best && end % PROFILED === 0)
        alarms.push(...profile(timeline.steps.slice(end - PROFILED, end), now));
    }
    return episodes(alarms);
  },
};

function profile(window: readonly StepTimes[], iteration: number): Alarm[] {
  const step = window.at(-1)?.step ?? 0;
  const names = new Set(window.flatMap(({ phases }) => [...phases.keys()]));
  return [...names].flatMap((name) => {
    const phases = window.flatMap(({ phases }) => phases.get(name) ?? []);
    const sums: number[] = [];
    for (const { durations } of phases)
      for (const [rank, time] of entries(durations)) sums[rank] = (sums[rank] ?? 0) + time / window.length;
    const center = middle(sums);
    const deviation = middle(sums.map((sum) => Math.abs(sum - center)));
    const limit = Math.max(center + DEVIATIONS * deviation, LEAST_SHARE * iteration);
    const ranks = entries(sums).flatMap(([rank, sum]) => (sum > limit ? [rank] : []));
    const kinds: IncidentKind[] = phases[0]?.kind === 'comm' ? ['comm_slow', 'nvlink_stall'] : ['straggler'];
    return ranks.length > 0 ? [{ kinds, step, ranks }] : [];
  });
}
