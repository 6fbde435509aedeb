import { resolve } from 'node:path';
import { Baseline, type Population } from '../detector/baseline/baseline.js';
import type { BaselineFile } from '../detector/baseline/format.js';
import { BACKENDS, type Backend, loadTensorFlow } from '../detector/baseline/tensorflow.js';
import { trainBaseline } from '../detector/baseline/train.js';
import { modelOf, predict } from '../detector/baseline/train-network.js';
import { type TrainingRun, TrainingSet, type WorkSample } from '../detector/baseline/training-set.js';
import { PartitionPipeline } from '../detector/pipeline/partition-pipeline.js';
import { importPaths } from '../importers/index.js';
import { newJobMeta } from '../protocol/job-meta.js';
import type { PhaseBatch } from '../protocol/phase-batch.js';
import { best, print } from './measure.js';

/*
 * What learning a baseline takes on each backend, and how many rows a second can be scored against it: by the plain
 * TypeScript that the detector uses, p-values of every phase included, and by each backend, the network alone, a step of
 * ranks at a time and 256 rank-steps at once. `times_detector`: rows scored in the time in which the detector takes one.
 */

const EXCERPT = resolve('fixtures/h200-tp2-excerpt');
const RANKS = 2;

export async function benchBaseline(): Promise<void> {
  const batches: PhaseBatch[] = [];
  for await (const batch of importPaths([EXCERPT])) batches.push(batch);
  const rows = batches.reduce((sum, batch) => sum + batch.length, 0);
  const runs = runsOf(batches);
  const rowsPerRankStep = rows / runs.reduce((sum, { steps }) => sum + RANKS * steps, 0);
  // In the order in which they would be scored: few steps have the shape of the one before.
  const samples = runs.flatMap(({ work }) => work.toSorted((a, b) => a.step - b.step));
  const loaded: Backend[] = [];
  let file: BaselineFile | undefined;
  for (const name of BACKENDS) {
    const backend = await loadTensorFlow([name]).catch((error: Error) =>
      print({ figure: 'baseline_training', backend: name, missing: error.message }),
    );
    if (!backend) continue;
    const started = performance.now();
    file = trainBaseline(backend, runs, { seed: 1, at: new Date(0).toISOString() });
    const seconds = Math.round(performance.now() - started) / 1000;
    print({ figure: 'baseline_training', backend: name, rank_steps: samples.length, seconds });
    loaded.push(backend);
  }
  if (file) await benchScoring(file, loaded, batches, samples, rowsPerRankStep);
}

function runsOf(batches: readonly PhaseBatch[]): TrainingRun[] {
  const set = new TrainingSet(1);
  for (const batch of batches) set.add(batch);
  return set.finish();
}

async function benchScoring(
  file: BaselineFile,
  loaded: readonly Backend[],
  batches: readonly PhaseBatch[],
  samples: readonly WorkSample[],
  rowsPerRankStep: number,
): Promise<void> {
  const rows = batches.reduce((sum, batch) => sum + batch.length, 0);
  const population = new Baseline(file).population(newJobMeta('any')) as Population;
  const { detector, typescript } = best({
    detector: () => detect(batches),
    typescript: () => score(population, samples),
  });
  const figure = (backend: string, at_once: number, seconds: number) =>
    print({
      figure: 'baseline_scoring',
      backend,
      rank_steps_at_once: at_once,
      rank_steps_per_s: Math.round(samples.length / seconds),
      rows_per_s: Math.round((rowsPerRankStep * samples.length) / seconds),
      times_detector: Math.round((10 * rowsPerRankStep * samples.length * detector) / rows / seconds) / 10,
    });
  figure('typescript', 1, typescript);
  const { network, features } = file.populations[0]?.roles[0] ?? {};
  const inputs = samples.map(() => new Float32Array(features?.length ?? 0));
  for (const { name } of network ? loaded : []) {
    const { tf } = await loadTensorFlow([name]);
    const model = modelOf(tf, network as NonNullable<typeof network>);
    for (const at_once of [2, 256]) {
      const { seconds } = best({
        seconds: () => {
          for (let i = 0; i < inputs.length; i += at_once) predict(tf, model, inputs.slice(i, i + at_once));
        },
      });
      figure(name, at_once, seconds);
    }
    model.dispose();
  }
}

function detect(batches: readonly PhaseBatch[]): void {
  const pipeline = new PartitionPipeline();
  let offset = 0n;
  for (const batch of batches) pipeline.add(batch, { place: '', offset: offset++, again: false });
  pipeline.flush();
}

function score(population: Population, samples: readonly WorkSample[]): void {
  for (const { stage, shape, durations } of samples)
    for (const [target, duration] of durations) population.pValue(target, stage, shape, duration);
}
