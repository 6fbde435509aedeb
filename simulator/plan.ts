import { bad } from './bad-option.js';
import { Cluster, GPUS_PER_HOST, type Layout } from './cluster.js';
import { range } from './communicators.js';
import type { Fault } from './faults.js';
import { EVENTS } from './measured.js';
import { type CheckedOptions, checkOptions, type SimulateOptions } from './options.js';
import { onsetOf, placeFault } from './placement.js';
import type { Scenario } from './scenario.js';

/** An attempt of a job: `steps` steps from `first` on. */
export interface Attempt {
  readonly run: string;
  readonly first: number;
  readonly steps: number;
}

/** A run with every choice made. */
export interface Plan {
  readonly options: CheckedOptions;
  readonly scenario: Scenario;
  readonly startNs: bigint;
  readonly microbatches: number;
  readonly attempts: readonly Attempt[];
  /** One training job, or one job an engine; or all engines in one where they step together. */
  readonly jobs: readonly { readonly cluster: Cluster; readonly faults: readonly Fault[] }[];
}

const DEFAULT_START_NS = 1_770_000_000_000_000_000n;

/** Checks options and makes the choices they leave open. Throws `bad_input` naming the option and what would do. */
export function planOf(options: SimulateOptions): Plan {
  const checked = checkOptions(options);
  const { scenario, job = `sim-${checked.name}`, gpusPerHost = GPUS_PER_HOST } = checked;
  const layout = layoutOf(checked);
  const clusters = engines(scenario)
    ? range(layout.dp).map((i) => {
        const name = layout.dp > 1 ? `${job}-${i}` : job;
        return new Cluster(name, { ...layout, dp: 1 }, { gpusPerHost, firstGpu: i * layout.tp });
      })
    : [new Cluster(job, layout, { gpusPerHost })];
  const fault = scenario.fault && placeFault(scenario.fault, checked, clusters);
  return {
    options: checked,
    scenario,
    startNs: checked.startNs ?? DEFAULT_START_NS,
    microbatches: checked.microbatches ?? (layout.pp > 1 ? 2 * layout.pp : 1),
    attempts: attemptsOf(checked),
    jobs: clusters.map((cluster) => ({ cluster, faults: fault?.truth.job === cluster.job ? [fault] : [] })),
  };
}

/** Whether each engine is a job of its own. */
const engines = (scenario: Scenario): boolean => scenario.workload === 'serving' && !scenario.lockstep;

function attemptsOf(options: CheckedOptions): Attempt[] {
  let first = 0;
  return attemptLengths(options).map((steps, i) => {
    const attempt = { run: String(i + 1), first, steps };
    first = options.scenario.workload === 'serving' ? 0 : Math.max(0, first + steps - EVENTS.restartRepeats);
    return attempt;
  });
}

function attemptLengths(options: CheckedOptions): number[] {
  const { scenario, steps } = options;
  const { fault, restarts } = scenario;
  const before = fault?.restarts ? onsetOf(options, fault) : Math.ceil(steps / 2);
  if (fault?.restarts || (restarts === 'once' && steps > 1)) return [before, steps - before];
  const most = restarts === 'often' ? EVENTS.restartSteps : steps;
  return range(Math.ceil(steps / most)).map((i) => Math.min(most, steps - i * most));
}

function layoutOf(options: CheckedOptions): Layout {
  const { ranks, layout = {}, scenario } = options;
  const serving = scenario.workload === 'serving';
  if (serving && (layout.pp ?? 1) > 1) throw bad('layout.pp', 'serving is simulated without pipeline', 'leave it out');
  const tp = layout.tp ?? defaultTp(options);
  const units = ranks / tp;
  const staged = scenario.fault?.target === 'stage';
  const uneven = scenario.workload === 'training' && scenario.unevenStages;
  const pp = layout.pp ?? (layout.dp !== undefined ? units / layout.dp : staged || uneven ? stagesFor(units) : 1);
  const dp = layout.dp ?? units / pp;
  if (![dp, tp, pp].every((degree) => Number.isInteger(degree)) || dp * tp * pp !== ranks)
    throw bad('layout', `dp x tp x pp must be ${ranks} ranks`, 'give degrees whose product is the number of ranks');
  if (staged && pp < 2) throw bad('layout.pp', 'this scenario needs at least 2 stages', 'give pp of 2 or more');
  const experts = scenario.workload === 'training' && scenario.experts;
  const ep = layout.ep ?? (experts ? largestDivisor(dp, GPUS_PER_HOST) : 1);
  if (dp % ep !== 0) throw bad('layout.ep', `${ep} does not divide dp, which is ${dp}`, 'give a divisor of dp');
  if (experts && ep < 2)
    throw bad('layout.ep', 'this scenario needs at least 2 ranks that share experts', 'give dp of 2 or more');
  checkWaits(scenario, { dp, tp, pp, ep });
  return { dp, tp, pp, ep };
}

/** Some faults show in what others wait for. */
function checkWaits({ workload, fault, ...scenario }: Scenario, { dp, tp }: Layout): void {
  if (workload !== 'serving' || !fault) return;
  const lockstep = 'lockstep' in scenario;
  if (['rank', 'machine', 'link'].includes(fault.target) && tp < 2)
    throw bad('layout.tp', 'ranks that share nothing cannot wait for each other', 'use an even number of ranks');
  if (lockstep && dp < 2) throw bad('layout.dp', 'this scenario needs at least 2 replicas', 'give dp of 2 or more');
}

function defaultTp({ ranks, layout, scenario, gpusPerHost = GPUS_PER_HOST }: CheckedOptions): number {
  if (scenario.workload === 'serving') {
    if (layout?.dp !== undefined) return ranks / layout.dp;
    if (scenario.lockstep) return scenario.tensor ? largestPower(ranks / 2, 4) : 1;
    return ranks <= gpusPerHost ? ranks : largestPower(ranks, gpusPerHost);
  }
  switch (scenario.tensor ? 'link' : scenario.fault?.target) {
    case 'link':
      return largestPower(ranks, Math.min(4, gpusPerHost));
    case 'nic':
    case 'host':
    case 'group':
      return ranks % gpusPerHost === 0 ? gpusPerHost : 1;
    default:
      return 1;
  }
}

/** 4 stages where the ranks allow, else the smallest number that does. */
function stagesFor(units: number): number {
  if (units % 4 === 0) return 4;
  for (let stages = 2; stages < units; stages++) if (units % stages === 0) return stages;
  return units;
}

/** The largest of 8, 4, 2 and 1 that divides. */
const largestPower = (value: number, limit: number): number =>
  [8, 4, 2].find((size) => size <= limit && value % size === 0) ?? 1;

function largestDivisor(value: number, limit: number): number {
  let divisor = Math.min(value, limit);
  while (value % divisor !== 0) divisor--;
  return divisor;
}
