import type { Scenario } from '../scenario.js';

const trains = {
  workload: 'training',
  events: 'rare',
  restarts: 'often',
  opens: true,
  tolerates: ['transient_stall'],
} as const;
const serves = { workload: 'serving', load: 'scheduled', pauses: true, tolerates: ['transient_stall'] } as const;

/**
 * Long healthy runs for counting false alarms: with everything that is healthy and looks like trouble. What a GPU-hour
 * costs depends on how long a step is: with stepSeconds 16 a second of one CPU makes 130 GPU-hours of a pipeline and 300
 * to 600 of other training; with stepSeconds 1 and detail whole 60 to 140 of engines and 17 of replicas in step. That is
 * 300,000 to 900,000 rows a second of training, 120,000 to 650,000 of serving.
 */
export const HEALTHY_LOAD: Readonly<Record<string, Scenario>> = {
  'healthy-load-training': { ...trains, summary: 'training; nothing is wrong, whatever it looks like', jitters: true },
  'healthy-load-tokens-vary': {
    ...trains,
    summary: 'training on sequences of varying length; nothing is wrong, whatever it looks like',
    lengths: 'by_replica',
    tolerates: ['transient_stall', 'load_imbalance'],
  },
  'healthy-load-collections': {
    ...trains,
    summary: 'training with collections in turn; nothing is wrong, whatever it looks like',
    collections: true,
  },
  'healthy-load-pipeline': {
    ...trains,
    summary: 'pipeline parallel training; nothing is wrong, whatever it looks like',
    unevenStages: true,
    jitters: true,
  },
  'healthy-load-experts': {
    ...trains,
    summary: 'expert parallel training; nothing is wrong, whatever it looks like',
    experts: true,
  },
  'healthy-load-serving': {
    ...serves,
    summary: 'engines that serve requests; nothing is wrong, whatever it looks like',
  },
  'healthy-load-kv-full': {
    ...serves,
    summary: 'engines with full KV caches and waiting requests; nothing is wrong, whatever it looks like',
    concurrency: 24,
    reserves: true,
    tightKv: true,
  },
  'healthy-load-replicas': {
    ...serves,
    summary: 'replicas that step together; nothing is wrong, whatever it looks like',
    lockstep: true,
    routing: 'skewed',
  },
  'healthy-load-decodes': {
    ...serves,
    summary: 'tensor parallel decoding as recorded; nothing is wrong, whatever it looks like',
    load: 'recorded',
  },
};
