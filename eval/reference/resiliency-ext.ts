import { entries, middle, type Timeline } from '../timeline.js';
import { type Alarm, episodes, type Method } from './method.js';

const SCORE = 0.75;
/** A report each 60 s of steps of some seconds. */
const REPORT_STEPS = 20;

/**
 * NVIDIA nvidia-resiliency-ext: per report window a rank's score is the mean of shortest median over own median of its
 * sections, weighted by their time, collectives left out; below 0.75 it is a straggler.
 */
export const resiliencyExt: Method = {
  name: 'NVIDIA resiliency-ext',
  rule: `score = shortest median / own median < ${SCORE}, every ${REPORT_STEPS} steps`,
  claims: ['straggler'],
  workloads: ['training', 'serving'],
  detect(timeline) {
    const alarms: Alarm[] = [];
    for (let end = REPORT_STEPS; end <= timeline.steps.length; end += REPORT_STEPS) {
      const window = timeline.steps.slice(end - REPORT_STEPS, end);
      const ranks = scoresOf(window).flatMap((score, rank) => (score < SCORE ? [rank] : []));
      if (ranks.length > 0) alarms.push({ kinds: ['straggler'], step: window.at(-1)?.step ?? 0, ranks });
    }
    return episodes(alarms);
  },
};

function scoresOf(window: Timeline['steps']): number[] {
  const sums: number[] = [];
  const weights: number[] = [];
  const names = new Set(window.flatMap(({ phases }) => [...phases.keys()]));
  for (const name of names) {
    const samples: number[][] = [];
    for (const { phases } of window) {
      const phase = phases.get(name);
      if (!phase || phase.kind === 'comm') continue;
      for (const [rank, time] of entries(phase.durations)) (samples[rank] ??= []).push(time);
    }
    const medians = samples.map(middle);
    const shortest = Math.min(...medians.filter((each) => each !== undefined));
    for (const [rank, own] of entries(medians)) {
      const weight = (samples[rank] as number[]).reduce((a, b) => a + b, 0);
      if (own === 0 || weight === 0) continue;
      sums[rank] = (sums[rank] ?? 0) + (weight * shortest) / own;
      weights[rank] = (weights[rank] ?? 0) + weight;
    }
  }
  return sums.map((sum, rank) => sum / (weights[rank] as number));
}
