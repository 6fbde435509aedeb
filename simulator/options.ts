import * as z from 'zod';
import { MAX_RANK } from '../protocol/limits.js';
import { bad } from './bad-option.js';
import { GPUS, type GpuKind } from './measured.js';
import { REQUESTS } from './measured-requests.js';
import type { RequestMix } from './requests/request.js';
import type { Scenario, Target } from './scenario.js';
import { SCENARIOS } from './scenarios/index.js';

const count = z.int().min(1);
const Options = z.strictObject({
  /** A name of SCENARIOS. */
  scenario: z.string(),
  ranks: z
    .int()
    .min(2)
    .max(MAX_RANK + 1),
  /** Of each job. */
  steps: count,
  seed: z.int(),
  /** What it means: see Effect, by the scenario's fault. Default: the scenario's. */
  strength: z.number().positive().optional(),
  /** First faulty step. Default: after a third of the run; 0 for what is wrong from the start. */
  onset: z.int().nonnegative().optional(),
  /** First step after the fault. Default: it stays. */
  end: count.optional(),
  /** The rank at fault, or whose GPU, NIC, host or group is. Default: drawn from the seed. */
  rank: z.int().nonnegative().optional(),
  /** The heavy stage. Default: the last. */
  stage: z.int().nonnegative().optional(),
  /** How long the rank of a hang stays away, seconds. Default: for good. */
  hangSeconds: z.number().positive().optional(),
  /** Degrees of parallelism; what is missing follows from the number of ranks. `ep` is a divisor of `dp`. */
  layout: z
    .strictObject({ dp: count.optional(), tp: count.optional(), pp: count.optional(), ep: count.optional() })
    .optional(),
  /** Default: 8. */
  gpusPerHost: count.optional(),
  /** Training: microbatches a step. Default: 1 without pipeline, else two a stage. */
  microbatches: count.optional(),
  /** Training: how steadily GPUs compute. Default: as they were recorded, steady in pipelines, else at their power limit. */
  gpus: z.enum(Object.keys(GPUS) as [GpuKind]).optional(),
  /** Length of a nominal step, seconds: a larger model. Default: as recorded, 0.4 s or more of training, 2 ms of serving. */
  stepSeconds: z.number().positive().optional(),
  /** Serving: one row a step and rank, prefill, decode or mixed, instead of its phases. Default: phases. */
  detail: z.enum(['phases', 'whole']).optional(),
  /** Serving requests: a Mooncake JSONL or Azure CSV file to take them from. Default: synthetic ones. */
  requestLog: z.string().optional(),
  /** Serving requests: the log whose statistics synthetic ones have. Default: the scenario's. */
  requestMix: z.enum(Object.keys(REQUESTS) as [RequestMix]).optional(),
  /** Serving requests that arrive: a second and engine. Default: as keeps about 8 running. */
  requestRate: z.number().positive().optional(),
  /** Seconds between two samples of a counter. Default: 1. */
  sampleSeconds: z.number().positive().optional(),
  /** Default: sim-SCENARIO. */
  job: z.string().min(1).optional(),
  /** Epoch of the run's beginning, ns. */
  startNs: z.bigint().optional(),
  /** Steps a message holds. Default: as many as make about 1,000 rows. */
  stepsPerBatch: count.optional(),
});
export type SimulateOptions = z.input<typeof Options>;
export type CheckedOptions = Omit<z.output<typeof Options>, 'scenario'> & {
  readonly scenario: Scenario;
  readonly name: string;
};

/** Checks each option by itself and against the scenario. Throws `bad_input` naming the option and what would do. */
export function checkOptions(options: SimulateOptions): CheckedOptions {
  const parsed = Options.safeParse(options);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    throw bad(issue?.path.join('.') || 'options', issue?.message ?? 'invalid', undefined);
  }
  const checked = parsed.data;
  const name = checked.scenario;
  const scenario = Object.hasOwn(SCENARIOS, name) ? SCENARIOS[name] : undefined;
  if (!scenario) throw bad('scenario', `"${name}" is not known`, `use one of ${Object.keys(SCENARIOS).join(', ')}`);
  for (const [option, applies] of Object.entries(APPLIES))
    if (checked[option as keyof typeof APPLIES] !== undefined && !applies(scenario))
      throw bad(option, `has no meaning in scenario "${name}"`, 'leave it out');
  if (checked.requestLog !== undefined && checked.requestMix !== undefined)
    throw bad('requestMix', 'a log already says how requests are', 'leave it out');
  return { ...checked, scenario, name };
}

const RANK_TARGETS: ReadonlySet<Target | undefined> = new Set<Target>([
  'rank',
  'machine',
  'link',
  'nic',
  'host',
  'group',
]);
const training = ({ workload }: Scenario): boolean => workload === 'training';
const scheduled = (scenario: Scenario): boolean => scenario.workload === 'serving' && scenario.load === 'scheduled';
const faulty = ({ fault }: Scenario): boolean => fault !== undefined;

/** Options that mean something only in some scenarios. */
const APPLIES = {
  strength: faulty,
  onset: faulty,
  end: ({ fault }: Scenario) =>
    fault !== undefined && fault.effect !== 'hang' && fault.bursts !== 'once' && !fault.restarts,
  rank: ({ fault }: Scenario) => RANK_TARGETS.has(fault?.target),
  stage: ({ fault }: Scenario) => fault?.target === 'stage',
  hangSeconds: ({ fault }: Scenario) => fault?.effect === 'hang',
  microbatches: training,
  gpus: training,
  detail: (scenario: Scenario) => !training(scenario),
  requestLog: scheduled,
  requestMix: scheduled,
  requestRate: (scenario: Scenario) => scheduled(scenario) && !('concurrency' in scenario),
} as const;
