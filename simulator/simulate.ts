import type { PhaseBatch } from '../protocol/phase-batch.js';
import type { Truth } from './faults.js';
import { HostBatches } from './host-batches.js';
import { Noise } from './noise.js';
import { type Plan, planOf, type SimulateOptions } from './options.js';
import { Serving } from './workload/serving.js';
import { Tokens } from './workload/tokens.js';
import { Training } from './workload/training.js';

export type { Truth } from './faults.js';
export type { SimulateOptions } from './options.js';
export { SCENARIOS } from './scenarios.js';

/**
 * A fleet's phase rows as its collectors would send them: one message a host every few steps, of at most
 * MAX_MESSAGE_ROWS rows; times by each host's own clock. The same options give the same rows.
 * Throws `bad_input` before the first batch if an option makes no sense.
 */
export function simulate(options: SimulateOptions): Generator<PhaseBatch, void, undefined> {
  return play(planOf(options));
}

/** What is really wrong in the run of these options: for tests and scoreboards only. */
export function truth(options: SimulateOptions): Truth[] {
  return planOf(options).jobs.flatMap(({ faults }) => faults.map((fault) => fault.truth));
}

function* play(plan: Plan): Generator<PhaseBatch, void, undefined> {
  const runs = plan.jobs.map((job) => {
    const rows = new HostBatches(job.cluster, plan.seed, plan.startNs, plan.stepsPerBatch);
    return { rows, workload: workloadOf(plan, job, rows) };
  });
  for (let step = 0; step < plan.steps; step++)
    for (const { rows, workload } of runs) {
      workload.step(step);
      yield* rows.endStep();
    }
  for (const { rows } of runs) yield* rows.flush();
}

function workloadOf(plan: Plan, { cluster, faults }: Plan['jobs'][number], rows: HostBatches): Training | Serving {
  const { seed, scenario, microbatches } = plan;
  if (scenario.workload === 'serving') return new Serving(seed, cluster, faults, rows);
  const noise = new Noise(seed, cluster.job, cluster.size);
  const tokens = new Tokens(seed, cluster.job, cluster.layout.dp, scenario.variesTokens ?? false);
  return new Training({ cluster, noise, tokens, faults, rows, microbatches });
}
