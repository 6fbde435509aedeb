import * as z from 'zod';
import { MAX_RANK } from './limits.js';

export const Rank = z.int().nonnegative().max(MAX_RANK, `is above ${MAX_RANK}, the highest rank`);

const RankInfo = z.object({
  rank: Rank,
  /** Where several hosts are read from one file; otherwise the message's host. */
  host: z.string().optional(),
  gpu: z.string().optional(),
  local_rank: z.int().optional(),
  dp: z.int().optional(),
  tp: z.int().optional(),
  pp: z.int().optional(),
  ep: z.int().optional(),
  stage: z.int().optional(),
  /** Which clock measured the durations. A host's time of a collective is that of its launch: the two do not compare. */
  clock: z.enum(['gpu', 'host']).optional(),
});
export type RankInfo = z.infer<typeof RankInfo>;

/** Facts of a job that are constant in a message; they travel in the Arrow schema's metadata. */
export const JobMeta = z.object({
  job: z.string().min(1),
  /** Attempt; changes at a restart. */
  run: z.string().min(1),
  host: z.string(),
  engine: z.string().optional(),
  engine_version: z.string().optional(),
  model: z.string().optional(),
  device: z.string().optional(),
  config_hash: z.string().optional(),
  /** Communicators: name -> global ranks. */
  groups: z.record(z.string(), z.array(Rank)),
  ranks: z.array(RankInfo),
  /** Batch slots of the engine, for its occupancy. */
  slots: z.int().optional(),
});
export type JobMeta = z.infer<typeof JobMeta>;

export const newJobMeta = (job: string, facts: Partial<JobMeta> = {}): JobMeta => ({
  run: '1',
  host: '',
  groups: {},
  ranks: [],
  ...facts,
  job,
});
