import * as z from 'zod';
import { PicketError } from '../protocol/errors.js';
import { MAX_RANK } from '../protocol/limits.js';
import { Cluster, GPUS_PER_HOST, type Layout, range } from './cluster.js';
import type { Fault, Truth } from './faults.js';
import { Random } from './random.js';
import { type FaultSpec, SCENARIOS, type Scenario } from './scenarios.js';

const count = z.int().min(1);
const Options = z.strictObject({
  /** A name of SCENARIOS. */
  scenario: z.string(),
  ranks: z
    .int()
    .min(2)
    .max(MAX_RANK + 1),
  steps: count,
  seed: z.int(),
  /** Compute: share of more work; host, data: delay over the nominal step. Default: the scenario's. */
  strength: z.number().positive().optional(),
  /** First faulty step. Default: after a third of the run; 0 for a stage. */
  onset: z.int().nonnegative().optional(),
  /** First step after the fault. Default: it stays. */
  end: count.optional(),
  /** The slow rank. Default: drawn from the seed. */
  rank: z.int().nonnegative().optional(),
  /** The heavy stage. Default: the last. */
  stage: z.int().nonnegative().optional(),
  /** Degrees of parallelism; what is missing follows from the number of ranks. */
  layout: z.strictObject({ dp: count.optional(), tp: count.optional(), pp: count.optional() }).optional(),
  /** Microbatches a step. Default: 1 without pipeline, else two a stage. */
  microbatches: count.optional(),
  /** Default: sim-SCENARIO. */
  job: z.string().min(1).optional(),
  /** Epoch of the run's beginning, ns. */
  startNs: z.bigint().optional(),
  /** Steps a message holds. Default: as many as make about 1,000 rows. */
  stepsPerBatch: count.optional(),
});
export type SimulateOptions = z.input<typeof Options>;
type Checked = z.output<typeof Options>;

/** A run with every choice made. */
export interface Plan {
  readonly scenario: Scenario;
  readonly seed: number;
  readonly steps: number;
  readonly startNs: bigint;
  readonly microbatches: number;
  readonly stepsPerBatch: number | undefined;
  /** One training job, or one job an engine. */
  readonly jobs: readonly { readonly cluster: Cluster; readonly faults: readonly Fault[] }[];
}

const DEFAULT_START_NS = 1_770_000_000_000_000_000n;

/** Checks options and makes the choices they leave open. Throws `bad_input` naming the option and what would do. */
export function planOf(options: SimulateOptions): Plan {
  const checked = check(options);
  const scenario = SCENARIOS[checked.scenario] as Scenario;
  const layout = layoutOf(checked, scenario);
  const name = checked.job ?? `sim-${checked.scenario}`;
  const clusters = scenario.workload === 'training' ? [new Cluster(name, layout)] : engines(name, layout.dp, layout.tp);
  const fault = scenario.fault && placeFault(checked, scenario.fault, clusters);
  return {
    scenario,
    seed: checked.seed,
    steps: checked.steps,
    startNs: checked.startNs ?? DEFAULT_START_NS,
    microbatches: checked.microbatches ?? (layout.pp > 1 ? 2 * layout.pp : 1),
    stepsPerBatch: checked.stepsPerBatch,
    jobs: clusters.map((cluster) => ({ cluster, faults: fault?.truth.job === cluster.job ? [fault] : [] })),
  };
}

function check(options: SimulateOptions): Checked {
  const parsed = Options.safeParse(options);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    throw bad(issue?.path.join('.') || 'options', issue?.message ?? 'invalid', undefined);
  }
  const checked = parsed.data;
  const scenario = Object.hasOwn(SCENARIOS, checked.scenario) ? SCENARIOS[checked.scenario] : undefined;
  if (!scenario)
    throw bad('scenario', `"${checked.scenario}" is not known`, `use one of ${Object.keys(SCENARIOS).join(', ')}`);
  const meaningless = (['strength', 'onset', 'end', 'rank', 'stage'] as const).find(
    (option) => checked[option] !== undefined && !applies(option, scenario.fault),
  );
  if (meaningless) throw bad(meaningless, `has no meaning in scenario "${checked.scenario}"`, 'leave it out');
  return checked;
}

function applies(option: 'strength' | 'onset' | 'end' | 'rank' | 'stage', fault: FaultSpec | undefined): boolean {
  if (option === 'rank' || option === 'stage') return fault?.target === option;
  return fault !== undefined;
}

function layoutOf({ ranks, layout = {}, microbatches }: Checked, scenario: Scenario): Layout {
  const serving = scenario.workload === 'serving';
  const staged = scenario.fault?.target === 'stage';
  const tp = layout.tp ?? (serving ? (layout.dp === undefined ? engineSize(ranks) : ranks / layout.dp) : 1);
  const units = ranks / tp;
  const pp = layout.pp ?? (layout.dp !== undefined ? units / layout.dp : staged ? stagesFor(units) : 1);
  const dp = layout.dp ?? units / pp;
  if (![dp, tp, pp].every((degree) => Number.isInteger(degree)) || dp * tp * pp !== ranks)
    throw bad('layout', `dp x tp x pp must be ${ranks} ranks`, 'give degrees whose product is the number of ranks');
  if (staged && pp < 2) throw bad('layout.pp', 'this scenario needs at least 2 stages', 'give pp of 2 or more');
  if (serving && (pp > 1 || microbatches !== undefined))
    throw bad(pp > 1 ? 'layout.pp' : 'microbatches', 'serving is simulated without pipeline', 'leave it out');
  if (serving && scenario.fault && tp < 2)
    throw bad('layout.tp', 'ranks that share nothing cannot wait for each other', 'use an even number of ranks');
  return { dp, tp, pp };
}

/** 4 stages where the ranks allow, else the smallest number that does. */
function stagesFor(units: number): number {
  if (units % 4 === 0) return 4;
  for (let stages = 2; stages < units; stages++) if (units % stages === 0) return stages;
  return units;
}

/** Largest tensor parallel group that one host holds. */
function engineSize(ranks: number): number {
  return ranks <= GPUS_PER_HOST ? ranks : ([8, 4, 2].find((size) => ranks % size === 0) ?? 1);
}

function engines(name: string, instances: number, tp: number): Cluster[] {
  const job = (i: number): string => (instances > 1 ? `${name}-${i}` : name);
  return range(instances).map((i) => new Cluster(job(i), { dp: 1, tp, pp: 1 }, i * tp));
}

function placeFault(checked: Checked, spec: FaultSpec, clusters: readonly Cluster[]): Fault {
  const { ranks, steps, seed } = checked;
  const onset = checked.onset ?? (spec.always ? 0 : Math.floor(steps / 3));
  const end = checked.end ?? steps;
  if (onset >= steps) throw bad('onset', `step ${onset} is after the last one`, `use less than ${steps}`);
  if (end <= onset) throw bad('end', `step ${end} is not after the onset, step ${onset}`, 'use a later one');
  const strength = checked.strength ?? spec.strength;
  const time = { onset_step: onset, ...(end < steps && { end_step: end }), strength };
  const { kind, cause, effect } = spec;
  if (spec.target === 'stage') {
    const cluster = clusters[0] as Cluster;
    const stage = below('stage', checked.stage ?? cluster.layout.pp - 1, cluster.layout.pp);
    const truth: Truth = { job: cluster.job, kind, cause, subject: { stage }, ...time };
    return { effect, ranks: new Set(cluster.ranksOfStage(stage)), onset, end, strength, truth };
  }
  const chosen = below('rank', checked.rank ?? Random.stream(seed, 'fault').below(ranks), ranks);
  const size = (clusters[0] as Cluster).size;
  const cluster = clusters[Math.floor(chosen / size)] as Cluster;
  const rank = chosen % size;
  const truth: Truth = { job: cluster.job, kind, cause, subject: { ranks: [rank] }, ...time };
  return { effect, ranks: new Set([rank]), onset, end, strength, truth };
}

function below(option: string, value: number, limit: number): number {
  if (value >= limit) throw bad(option, `${value} does not exist`, `use 0 to ${limit - 1}`);
  return value;
}

const bad = (field: string, problem: string, remedy: string | undefined): PicketError =>
  new PicketError('bad_input', problem, { field, remedy });
