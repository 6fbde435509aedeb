import type { IncidentKind } from '../protocol/incident.js';
import type { Effect } from '../simulator/faults.js';
import type { Scenario } from '../simulator/scenario.js';
import { SCENARIOS, type SimulateOptions } from '../simulator/simulate.js';

/** Seeds to develop on, and those of the report, on which nothing is ever tuned. */
export const DEVELOPMENT_SEEDS: readonly number[] = [1];
export const REPORT_SEEDS: readonly number[] = [9501, 9502, 9503];
/** Further seeds of the report, at 8 ranks, for kinds that few scenarios have: a recall of three faults says little. */
const RARE_SEEDS: readonly number[] = [9511, 9512, 9513, 9514];
const RARE_KINDS: ReadonlySet<IncidentKind> = new Set([
  ...(['rnic_flap', 'tp_slow_path', 'prefill_blocking', 'kv_recompute', 'sched_imbalance', 'stage_imbalance'] as const),
]);

export const STRENGTHS: readonly number[] = [0.05, 0.1, 0.2, 0.5];
/** From here on a fault must be found, whatever it costs. */
export const STRONG = 0.2;

/** Effects whose strength is a share of time or work; the others count something else and are run as the scenario says. */
const SHARES: ReadonlySet<Effect> = new Set([
  ...(['compute', 'memory', 'host', 'launch', 'data', 'drift'] as const),
  ...(['transfer', 'lengths_fixed', 'experts', 'eager'] as const),
]);

const STEPS = { training: 240, serving: 480 } as const;
/** Caches and queues fill slowly: a fault that acts through them needs some seconds of steps. */
const SLOW_STEPS: Partial<Record<Effect, number>> = { kv: 1920, router: 3840 };
/** Long healthy runs. Training: steps of a large model, so that GPU-hours add up, and fewer of them in larger jobs. */
const LOAD_STEPS = { training: 3000, serving: 4000 } as const;
const LOAD_RANK_STEPS = 500_000;
const LOAD_STEP_SECONDS = { training: 20, serving: 0.05 } as const;

/** A run of the scoreboard. */
export interface CaseOptions extends SimulateOptions {
  /** The detector is given a baseline of earlier healthy runs. */
  readonly baseline?: true;
}

/** All runs of a scoreboard: every scenario by cluster size, seed and strength, some of them also with a baseline. */
export function casesOf(seeds: readonly number[], rankCounts: readonly number[]): CaseOptions[] {
  return seeds.flatMap((seed) =>
    rankCounts.flatMap((ranks) =>
      Object.entries(SCENARIOS).flatMap(([name, scenario]) =>
        strengthsOf(scenario).flatMap((strength) => {
          const options = {
            ...{ scenario: name, ranks, seed, ...lengthOf(name, scenario, ranks) },
            ...(strength !== undefined && { strength }),
            ...(spansHosts(scenario) && { gpusPerHost: Math.min(8, Math.max(1, ranks / 4)) }),
          };
          return WITH_BASELINE.has(name) ? [options, { ...options, baseline: true as const }] : [options];
        }),
      ),
    ),
  );
}

/** Cluster sizes of the report, each with a seed of its own; the larger ones in brief. */
export const REPORT_RUNS = [8, 64, 256, 1024].map((ranks, i) => ({
  ranks,
  seed: REPORT_SEEDS[i % REPORT_SEEDS.length] as number,
  brief: ranks > 8,
}));

/**
 * What the report runs. In brief: strengths of 20 %, and stragglers of 10 % too. Of clusters beyond 64
 * ranks training only, since there are no larger engines. Rare kinds and small
 * stragglers once more, with seeds of their own.
 */
export function reportCases(): CaseOptions[] {
  return [...mainCases(), ...rareCases()];
}

function mainCases(): CaseOptions[] {
  return REPORT_RUNS.flatMap(({ ranks, seed, brief }) =>
    casesOf([seed], [ranks]).filter(({ scenario: name, strength, baseline }) => {
      const scenario = SCENARIOS[name] as Scenario;
      if (ranks > 64 && (scenario.workload !== 'training' || baseline || needsBaseline(name))) return false;
      const strengths = scenario.fault?.kind === 'straggler' ? [0.1, 0.2] : [0.2];
      return !brief || !isGraded(scenario) || (strength !== undefined && strengths.includes(strength));
    }),
  );
}

/** Of strengths that must be found, and where they can be seen; and stragglers of 5 %, of which most must. */
const rareCases = (): CaseOptions[] =>
  casesOf(RARE_SEEDS, [8]).filter(({ scenario: name, strength = STRONG, baseline }) => {
    const { fault } = SCENARIOS[name] as Scenario;
    if (fault?.kind === 'straggler') return strength === 0.05;
    return fault && RARE_KINDS.has(fault.kind) && strength === STRONG && (baseline || !needsBaseline(name));
  });

/** What is so from the first step on, and healthy runs in which nobody may say so. */
const WITH_BASELINE: ReadonlySet<string> = new Set([
  ...Object.keys(SCENARIOS).filter((name) => needsBaseline(name)),
  ...['healthy', 'serving-healthy', 'serving-scheduled', 'lookalike-large-batches', 'lookalike-transfers-grow'],
]);

/** Only an expectation from outside of the run can see it. */
export function needsBaseline(name: string): boolean {
  const fault = SCENARIOS[name]?.fault;
  return fault !== undefined && fault.kind !== 'stage_imbalance' && (fault.always ?? fault.restarts ?? false);
}

/** Whether a strength is a share of time or work, and so comparable between scenarios. */
export const isGraded = ({ fault }: Scenario): boolean =>
  fault !== undefined && SHARES.has(fault.effect) && fault.bursts !== 'once' && fault.bursts !== 'every_second';

/** Undefined: the scenario's own. */
function strengthsOf(scenario: Scenario): (number | undefined)[] {
  if (!isGraded(scenario)) return [undefined];
  const own = scenario.fault?.strength;
  return own !== undefined && STRENGTHS.includes(own) ? [...STRENGTHS] : [...STRENGTHS, undefined];
}

export const isHealthyLoad = (name: string): boolean => name.startsWith('healthy-load-');

type Length = Pick<SimulateOptions, 'steps' | 'stepSeconds'>;

function lengthOf(name: string, { workload, fault }: Scenario, ranks: number): Length {
  if (!isHealthyLoad(name)) return { steps: (fault && SLOW_STEPS[fault.effect]) ?? STEPS[workload] };
  const steps = Math.min(LOAD_STEPS[workload], Math.ceil(LOAD_RANK_STEPS / ranks));
  return { steps, stepSeconds: LOAD_STEP_SECONDS[workload] };
}

/** What goes on between hosts needs some of them, however few the ranks. */
function spansHosts(scenario: Scenario): boolean {
  if (['nic', 'host', 'group'].includes(scenario.fault?.target ?? '')) return true;
  return scenario.workload === 'training' && (scenario.jitters === true || scenario.blip === true);
}
