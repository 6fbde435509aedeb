import type { BaselineFile } from '../../../detector/baseline/format.js';
import { type Backend, loadTensorFlow } from '../../../detector/baseline/tensorflow.js';
import { trainBaseline } from '../../../detector/baseline/train.js';
import { type TrainingRun, TrainingSet } from '../../../detector/baseline/training-set.js';
import { importPaths } from '../../../importers/index.js';
import type { PhaseBatch } from '../../../protocol/phase-batch.js';

export const AT = '2026-01-01T00:00:00Z';

/** The backend that every installation has. */
export const wasm = (): Promise<Backend> => loadTensorFlow(['wasm']);

export function runsOf(batches: Iterable<PhaseBatch>): TrainingRun[] {
  const set = new TrainingSet(1);
  for (const batch of batches) set.add(batch);
  return set.finish();
}

/** Runs of recorded scenarios. */
export async function recordedRuns(path: string, scenarios: readonly string[]): Promise<TrainingRun[]> {
  const set = new TrainingSet(1);
  for (const scenario of scenarios) for await (const batch of importPaths([path], { scenario })) set.add(batch);
  return set.finish();
}

export const train = async (runs: readonly TrainingRun[], seed = 1): Promise<BaselineFile> =>
  trainBaseline(await wasm(), runs, { seed, at: AT });
