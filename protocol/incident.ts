import * as z from 'zod';

/** What can be wrong; the doc comments in detector/detectors/ say what each means. */
export const INCIDENT_KINDS = [
  'straggler',
  'nvlink_stall',
  'rnic_flap',
  'comm_slow',
  'comm_hang',
  'prefill_blocking',
  'kv_recompute',
  'no_cuda_graph',
  'sched_imbalance',
  'load_imbalance',
  'stage_imbalance',
  'tp_slow_path',
  'step_drift',
  'transient_stall',
  'data_quality',
] as const;
export const IncidentKind = z.enum(INCIDENT_KINDS);
export type IncidentKind = z.infer<typeof IncidentKind>;

export const SEVERITIES = ['info', 'warning', 'critical'] as const;
export const Severity = z.enum(SEVERITIES);
export type Severity = z.infer<typeof Severity>;

export const IncidentStatus = z.enum(['open', 'acknowledged', 'resolved']);
export type IncidentStatus = z.infer<typeof IncidentStatus>;

export const Cause = z.enum(['compute', 'host', 'data', 'memory', 'network', 'workload', 'configuration', 'unknown']);
export type Cause = z.infer<typeof Cause>;

/** Whom an incident is about; empty lists and nulls where it is not about that. */
export const Subject = z.object({
  job: z.string(),
  run: z.string(),
  ranks: z.array(z.int()),
  hosts: z.array(z.string()),
  stage: z.int().nullable(),
  group: z.string().nullable(),
  link: z.string().nullable(),
  nic: z.string().nullable(),
  requests: z.array(z.string()),
  /** More precise where known: phase that grew, engine instance, GPU, graph bucket, where bad records come from. */
  phase: z.string().nullable(),
  instance: z.string().nullable(),
  gpu: z.string().nullable(),
  graph: z.int().nullable(),
  source: z.string().nullable(),
});
export type Subject = z.infer<typeof Subject>;

export const newSubject = (job: string, run: string, facts: Partial<Subject> = {}): Subject => ({
  ranks: [],
  hosts: [],
  stage: null,
  group: null,
  link: null,
  nic: null,
  requests: [],
  phase: null,
  instance: null,
  gpu: null,
  graph: null,
  source: null,
  ...facts,
  job,
  run,
});

export const Cost = z.object({
  /** Time lost a step, in ms. */
  ms_per_step: z.number(),
  /** Time lost over the step as it now is, 0..1. */
  step_fraction: z.number(),
  /** GPU time lost so far: time lost a step x steps x ranks that lose it. */
  gpu_seconds: z.number(),
});
export type Cost = z.infer<typeof Cost>;

/** The best other explanation, and the numbers that defeated it. */
export const RunnerUp = z.object({ kind: z.string(), why_not: z.string() });
export type RunnerUp = z.infer<typeof RunnerUp>;

export const Evidence = z.record(z.string(), z.union([z.number(), z.string(), z.boolean(), z.array(z.number())]));
export type Evidence = z.infer<typeof Evidence>;

const Time = z.iso.datetime();

export const TimelineEntry = z.object({
  at: Time,
  step: z.int(),
  event: z.enum(['opened', 'escalated', 'eased', 'acknowledged', 'resolved', 'reopened']),
  note: z.string(),
});
export type TimelineEntry = z.infer<typeof TimelineEntry>;

export const Incident = z.object({
  id: z.string(),
  kind: IncidentKind,
  subject: Subject,
  cause: Cause,
  severity: Severity,
  status: IncidentStatus,
  /** One line for people. */
  summary: z.string(),
  onset_step: z.int(),
  detected_step: z.int(),
  last_step: z.int(),
  started_at: Time,
  detected_at: Time,
  resolved_at: Time.nullable(),
  cost: Cost,
  confidence: z.number().min(0).max(1),
  evidence: Evidence,
  runner_up: RunnerUp.nullable(),
  /** The rule that opened it and the commit it was of; labels and annotations are the rule's, filled in. */
  rule: z.object({
    id: z.string(),
    commit: z.string().nullable(),
    labels: z.record(z.string(), z.string()).optional(),
    annotations: z.record(z.string(), z.string()).optional(),
  }),
  /** How often it came back after it had ended; absent: never. */
  reopened: z.int().positive().optional(),
  /** Id of the incident that stands for many which opened together, this one among them. */
  part_of: z.string().optional(),
  /** It stands for others: what they have in common ('' nothing but the time), and their ids. */
  storm: z.object({ common: z.string(), members: z.array(z.string()) }).optional(),
  timeline: z.array(TimelineEntry),
});
export type Incident = z.infer<typeof Incident>;

/** Severity by the share of the step that is lost; the two kinds that only inform never page. */
export function severityOf(kind: IncidentKind, stepFraction: number): Severity {
  if (kind === 'transient_stall' || kind === 'data_quality') return 'info';
  if (stepFraction >= 0.2) return 'critical';
  return stepFraction >= 0.1 ? 'warning' : 'info';
}

/** RFC 3339 with nanoseconds, in UTC. */
export function timestampOf(epochNs: bigint): string {
  const seconds = epochNs / 1_000_000_000n;
  const fraction = (epochNs % 1_000_000_000n).toString().padStart(9, '0');
  return `${new Date(Number(seconds) * 1000).toISOString().slice(0, 19)}.${fraction}Z`;
}
