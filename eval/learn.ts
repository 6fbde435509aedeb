import { type Baseline, loadBaseline } from '../detector/baseline/baseline.js';
import { formatBaseline } from '../detector/baseline/format.js';
import { loadTensorFlow } from '../detector/baseline/tensorflow.js';
import { trainBaseline } from '../detector/baseline/train.js';
import { TrainingSet } from '../detector/baseline/training-set.js';
import { SCENARIOS, type SimulateOptions, simulate } from '../simulator/simulate.js';
import { NO_STRENGTH } from './play.js';

/** Runs that a baseline is learnt from, and their length: what a user has of earlier days. */
const RUNS = 2;
const MOST_STEPS = 240;
/** Earlier runs have other noise and other GPUs. */
const EARLIER_SEEDS = 50_000;

/** What `picket baseline train` learns from earlier healthy runs of a case's job. */
export async function learnBaseline({ strength, ...options }: SimulateOptions): Promise<Baseline> {
  const set = new TrainingSet(1);
  const steps = Math.min(MOST_STEPS, options.steps);
  const healthy = SCENARIOS[options.scenario]?.fault && { onset: steps - 1, strength: NO_STRENGTH };
  for (let run = 0; run < RUNS; run++) {
    const seed = EARLIER_SEEDS + RUNS * options.seed + run;
    for (const batch of simulate({ ...options, ...healthy, steps, seed, job: `earlier-${run}` })) set.add(batch);
  }
  // Native libraries do not like several threads.
  const backend = await loadTensorFlow(['wasm', 'cpu']);
  const file = trainBaseline(backend, set.finish(), { seed: 1, at: new Date(0).toISOString() });
  return loadBaseline(formatBaseline(file));
}
