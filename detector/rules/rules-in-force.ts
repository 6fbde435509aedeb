import type { JobMeta } from '../../protocol/job-meta.js';
import { BUILT_IN, type JobPolicy } from './job-rules.js';

/** The rules that hold now; a reload replaces `current` as a whole. */
export interface RulesInForce {
  readonly current: { forJob(meta: Pick<JobMeta, 'job' | 'engine' | 'model'>): JobPolicy };
}

export const BUILT_IN_RULES: RulesInForce = { current: { forJob: () => BUILT_IN } };
