import { entries, type GroupTimes, iterationTimes, middle, type StepTimes, transferOf } from '../timeline.js';
import { alarmOf } from './greyhound.js';
import { type Alarm, episodes, type Method } from './method.js';

const TIMES = 2;
const HISTORY = 20;

/**
 * Mycroft: the interval of collectives doubles, or a communicator's throughput halves, against the last steps; then the
 * communicator that got slow, else the rank that the others waited for.
 */
export const mycroft: Method = {
  name: 'Mycroft',
  rule: `interval of collectives doubles or throughput halves, against ${HISTORY} steps`,
  claims: ['straggler', 'comm_slow', 'nvlink_stall', 'rnic_flap'],
  workloads: ['training', 'serving'],
  detect(timeline) {
    const { steps } = timeline;
    const intervals = iterationTimes(timeline);
    const alarms: Alarm[] = [];
    for (let i = HISTORY; i < intervals.length; i++) {
      const now = steps[i] as StepTimes;
      const slow = slowGroups(steps.slice(i - HISTORY, i), now);
      for (const name of slow) {
        const alarm = alarmOf(timeline, name, now.step);
        alarms.push({ ...alarm, kinds: alarm.kinds.includes('comm_slow') ? ['comm_slow', 'rnic_flap'] : alarm.kinds });
      }
      const doubled = (intervals[i] as number) > TIMES * middle(intervals.slice(i - HISTORY, i));
      if (doubled && slow.length === 0) alarms.push(...lastToCome(now));
    }
    return episodes(alarms);
  },
};

function slowGroups(history: readonly StepTimes[], now: StepTimes): string[] {
  return [...now.groups].flatMap(([name, group]) => {
    const before = middle(history.flatMap((step) => throughput(step.groups.get(name))));
    return throughput(group).some((each) => TIMES * each < before) ? [name] : [];
  });
}

const throughput = (group: GroupTimes | undefined): number[] =>
  group && group.bytes > 0 ? [group.bytes / transferOf(group)] : [];

/** The rank whose collectives are shortest against those of its communicator is the one that all waited for. */
function lastToCome({ step, groups }: StepTimes): Alarm[] {
  const waits = [...groups.values()].flatMap(({ durations }) => {
    const typical = middle(durations);
    return entries(durations).map(([rank, time]) => ({ rank, share: time / typical }));
  });
  const [last] = waits.sort((a, b) => a.share - b.share);
  return last ? [{ kinds: ['straggler'], step, ranks: [last.rank] }] : [];
}
