import { entries, middle, ownTimes } from '../timeline.js';
import { type Alarm, episodes, type Method } from './method.js';

const TIMES = 2;

/** DLRover's node check, done on the job's own work in every step and not on a bench before it: 2 x the median is a straggler. */
export const dlrover: Method = {
  name: 'DLRover',
  rule: `own time > ${TIMES} x the median of ranks, the better of two steps`,
  claims: ['straggler'],
  workloads: ['training', 'serving'],
  detect({ steps }) {
    const alarms: Alarm[] = [];
    for (let i = 1; i < steps.length; i++) {
      const [before, now] = [steps[i - 1], steps[i]];
      if (!before || !now) continue;
      const first = ownTimes(before);
      // Two rounds, the better one counts.
      const times = ownTimes(now).map((time, rank) => Math.min(time, first[rank] ?? time));
      const limit = TIMES * middle(times);
      const ranks = entries(times).flatMap(([rank, time]) => (time > limit ? [rank] : []));
      if (ranks.length > 0) alarms.push({ kinds: ['straggler'], step: now.step, ranks });
    }
    return episodes(alarms);
  },
};
