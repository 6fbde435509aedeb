import { median, sortedKnown } from '../reference/statistics.js';
import { calibrate, type Residual, WORK_SPREAD } from './conformal.js';
import type { BucketData, RoleData, TargetData } from './format.js';
import { groupBy } from './group-by.js';
import { type Network, NetworkEvaluator } from './network.js';
import { bucketOf, FEATURES, logFeature } from './shape.js';
import type { TensorFlow } from './tensorflow.js';
import { modelOf, predict, trainNetwork } from './train-network.js';
import type { WorkSample } from './training-set.js';

/** A sample and the number of its run. */
export interface RoleSample extends WorkSample {
  readonly runIndex: number;
}

/** What a sample is used for: whole blocks of steps, since neighbouring steps are alike. */
const BLOCK_STEPS = 16;
const USES = ['fit', 'calibrate', 'fit', 'check'] as const;
const useOf = ({ step }: WorkSample): (typeof USES)[number] =>
  USES[Math.floor(step / BLOCK_STEPS) % USES.length] as (typeof USES)[number];

/** A backend whose arithmetic is further off than this is broken (float32 rounds by 1e-7). */
const MAX_DISAGREEMENT = 1e-4;
/** Standardised values of targets that hardly vary must not amplify rounding. */
const LEAST_SCALE = 0.01;

/** Learns what the work of one role takes; undefined where no step is left to calibrate on. */
export function trainRole(
  tf: TensorFlow,
  stage: number,
  samples: readonly RoleSample[],
  seed: number,
): RoleData | undefined {
  const features = standardisedFeatures(samples);
  const targets = standardisedTargets(samples);
  if (targets.length === 0) return undefined;
  const fitted = samples.filter((sample) => useOf(sample) === 'fit');
  const rows = {
    inputs: fitted.map((sample) => inputsOf(features, sample)),
    buckets: fitted.map(({ shape }) => bucketOf(shape)),
    outputs: fitted.map(({ durations }) =>
      Float32Array.from(
        targets,
        ({ name, center, scale }) => (Math.log(durations.get(name) ?? Number.NaN) - center) / scale,
      ),
    ),
  };
  if (fitted.length === 0) return undefined;
  const network = trainNetwork(tf, rows, seed);
  compareBackends(tf, network, rows.inputs);
  const role = { stage, rows: samples.length, features, targets, network };
  const buckets = calibrateBuckets(
    role,
    samples.filter((sample) => useOf(sample) !== 'fit'),
  );
  return Object.keys(buckets).length === 0 ? undefined : { ...role, buckets };
}

/** Features that every sample knows. */
function standardisedFeatures(samples: readonly WorkSample[]): RoleData['features'] {
  return FEATURES.flatMap((name) => {
    const values = Float64Array.from(samples, ({ shape }) => logFeature(shape, name));
    if (values.some(Number.isNaN)) return [];
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
    return [{ name, mean, scale: Math.sqrt(variance) || 1 }];
  });
}

function standardisedTargets(samples: readonly WorkSample[]): RoleData['targets'] {
  const names = new Set(samples.flatMap(({ durations }) => [...durations.keys()]));
  return [...names].sort().map((name) => {
    const logs = sortedKnown(samples.map(({ durations }) => Math.log(durations.get(name) ?? Number.NaN)));
    const center = median(logs);
    const spread = median(logs.map((value) => Math.abs(value - center)));
    return { name, center, scale: Math.max(LEAST_SCALE, 1.4826 * spread) };
  });
}

const inputsOf = (features: RoleData['features'], { shape }: WorkSample): Float32Array =>
  Float32Array.from(features, ({ name, mean, scale }) => (logFeature(shape, name) - mean) / scale);

/** Scores are computed without TensorFlow: the network must mean the same there. */
function compareBackends(tf: TensorFlow, network: Network, inputs: readonly Float32Array[]): void {
  const some = inputs.slice(0, 256);
  const evaluator = new NetworkEvaluator(network);
  const own = some.flatMap((row) => [...evaluator.evaluate(row)]);
  const model = modelOf(tf, network);
  const theirs = predict(tf, model, some);
  model.dispose();
  const worst = own.reduce((most, value, i) => Math.max(most, Math.abs(value - (theirs[i] as number))), 0);
  if (!(worst <= MAX_DISAGREEMENT))
    throw new Error(`the ${tf.getBackend()} backend computes the network ${worst} off; use another`);
}

function calibrateBuckets(role: Omit<RoleData, 'buckets'>, samples: readonly RoleSample[]): Record<string, BucketData> {
  const evaluator = new NetworkEvaluator(role.network);
  const buckets: Record<string, BucketData> = {};
  const byBucket = [...groupBy(samples, ({ shape }) => bucketOf(shape))];
  byBucket.sort(([a], [b]) => a.localeCompare(b, 'en', { numeric: true }));
  for (const [bucket, own] of byBucket) {
    const predictions = own.map((sample) => evaluator.evaluate(inputsOf(role.features, sample)).slice());
    const targets: Record<string, TargetData> = {};
    role.targets.forEach(({ name, center, scale }, output) => {
      const residuals: Record<'calibrate' | 'check', Residual[]> = { calibrate: [], check: [] };
      own.forEach((sample, i) => {
        const duration = sample.durations.get(name);
        if (duration === undefined) return;
        const predicted = center + scale * ((predictions[i] as Float32Array)[output] as number);
        const use = useOf(sample) as 'calibrate' | 'check';
        residuals[use].push({ run: sample.runIndex, rank: sample.rank, value: Math.log(duration) - predicted });
      });
      const calibration = calibrate(residuals.calibrate, residuals.check, WORK_SPREAD);
      const durations = own.map((sample) => sample.durations.get(name) ?? Number.NaN);
      if (calibration) targets[name] = { ...calibration, typical_ns: median(durations) };
    });
    if (Object.keys(targets).length > 0) buckets[bucket] = { ranges: rangesOf(role.features, own), targets };
  }
  return buckets;
}

const rangesOf = (features: RoleData['features'], samples: readonly WorkSample[]): [number, number][] =>
  features.map(({ name }) => {
    const sorted = sortedKnown(samples.map(({ shape }) => logFeature(shape, name)));
    return [sorted[0] as number, sorted.at(-1) as number];
  });
