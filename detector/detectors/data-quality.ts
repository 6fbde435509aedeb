import type { ErrorPlace } from '../../protocol/errors.js';
import { newSubject } from '../../protocol/incident.js';
import type { Finding } from './finding.js';

/** Records of one job and run that could not be used, or not as they came, by reason. Plain data. */
export type QualityCounts = Map<string, QualityCount>;

export interface QualityCount {
  count: number;
  /** Where the first one stood: file and line, or topic offset, as far as known; '' unknown. */
  first: string;
  /** Steps that had closed when the first and the last came. */
  since: number;
  last: number;
}

/** A reason is over once so many steps have closed without another. */
const QUIET_STEPS = 64;

const WORDS: Record<string, string> = {
  start_zero: 'rows whose start is 0 (the driver had no timing)',
  start_out_of_range: 'rows whose start lies outside of any epoch',
  duration_negative: 'rows with a negative duration',
  duration_too_long: 'rows that last longer than a week',
  rank_out_of_range: 'rows with an impossible rank',
  step_negative: 'rows with a negative step',
  negative_value: 'rows with a negative count',
  phase_empty: 'rows without the name of a phase',
  late: 'rows of steps that had closed',
  other_clock: 'steps of ranks whose phases another clock timed than those of most: not compared with them',
  far_ahead: 'rows of a step so far ahead that nothing confirmed it',
};

/** Counts records under a reason; after a quiet time it begins anew. */
export function countBad(counts: QualityCounts, reason: string, count: number, first: string, step: number): void {
  const known = counts.get(reason);
  if (!known || isOver(known, step)) counts.set(reason, { count, first, since: step, last: step });
  else {
    known.count += count;
    known.last = step;
  }
}

const isOver = ({ last }: QualityCount, step: number): boolean => step - last > QUIET_STEPS;

export const placeText = ({ file, line, offset, field }: ErrorPlace): string =>
  [
    file,
    line === undefined ? '' : `line ${line}`,
    offset === undefined ? '' : `byte ${offset}`,
    field === undefined ? '' : `field "${field}"`,
  ]
    .filter((part) => part)
    .join(' ');

/** One finding a reason: it informs, never pages, and says what was lost and where first. */
export function qualityFindings(counts: QualityCounts, job: string, run: string, step: number, now: bigint): Finding[] {
  if (counts.size === 0) return [];
  return [...counts]
    .filter(([, count]) => !isOver(count, step))
    .map(([reason, { count, first, since }]) => ({
      kind: 'data_quality',
      key: `source=${reason}`,
      subject: newSubject(job, run, { source: reason }),
      cause: 'unknown',
      summary: `${count} ${WORDS[reason] ?? reason.replaceAll('_', ' ')}${first ? `, first at ${first}` : ''}`,
      onsetStep: since,
      onsetNs: now,
      cost: { ms_per_step: 0, step_fraction: 0, gpu_seconds: 0 },
      confidence: 1,
      evidence: { count, ...(first ? { first } : {}) },
      runnerUp: null,
    }));
}
