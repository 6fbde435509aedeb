import * as z from 'zod';
import { PicketError } from '../../protocol/errors.js';
import { PopulationKey } from './population-key.js';
import { FEATURES } from './shape.js';

/** A baseline file: JSON of this schema. The version is raised whenever an older reader would misunderstand it. */
export const BASELINE_FORMAT = 'picket-baseline';
export const BASELINE_VERSION = 1;

const Layer = z.strictObject({
  weights: z.array(z.number()).readonly(),
  biases: z.array(z.number()).min(1).readonly(),
});

const Network = z.strictObject({ layers: z.array(Layer).min(1).readonly() });

const Calibration = z.strictObject({
  rows: z.int().positive(),
  run_spread: z.number().nonnegative(),
  rank_spread: z.number().nonnegative(),
  coverage: z.number().min(0).max(1).nullable(),
  residuals: z.array(z.number()).min(1).readonly(),
  tail: z.number().positive(),
});

/** `typical_ns`: median duration, for people. */
const Target = Calibration.extend({ typical_ns: z.number().positive() });

const Band = z.strictObject({ q05: z.number(), q50: z.number(), q95: z.number() });

const Bucket = z.strictObject({
  /** Smallest and largest log feature learnt from, in the order of the role's features. */
  ranges: z.array(z.tuple([z.number(), z.number()])),
  targets: z.record(z.string(), Target),
});

const Role = z
  .strictObject({
    /** Pipeline stage; -1: none. */
    stage: z.int(),
    rows: z.int().positive(),
    /** Those that all rows knew; each is standardised as (log feature - mean) / scale. */
    features: z.array(z.strictObject({ name: z.enum(FEATURES), mean: z.number(), scale: z.number().positive() })),
    /** Outputs of the network: log duration = center + scale x output. */
    targets: z.array(z.strictObject({ name: z.string(), center: z.number(), scale: z.number().positive() })).min(1),
    network: Network,
    buckets: z.record(z.string(), Bucket),
  })
  .check(({ value: { features, targets, network, buckets }, issues }) => {
    const fail = (path: string[], message: string) => issues.push({ code: 'custom', input: network, path, message });
    let width = features.length;
    for (const { weights, biases } of network.layers) {
      if (weights.length !== width * biases.length) fail(['network'], `has a layer that does not take ${width} inputs`);
      width = biases.length;
    }
    if (width !== targets.length) fail(['network'], `gives ${width} outputs for ${targets.length} targets`);
    if (Object.values(buckets).some(({ ranges }) => ranges.length !== features.length))
      fail(['buckets'], `has a bucket without the ranges of its ${features.length} features`);
  });

const Collective = z.strictObject({
  op: z.string(),
  ranks: z.int().min(2),
  hosts: z.int().positive(),
  launch: z.enum(['graph', 'eager', 'unknown']),
  /** Mean message size, and log of the transfer that residuals are taken about. */
  bytes: z.number().positive(),
  center: z.number(),
  transfer: Calibration,
});

const GraphUse = z.strictObject({
  decode_tokens: z.int().positive(),
  /** Rank-steps that decoded so many tokens and did nothing else. */
  rows: z.int().positive(),
  graph_rows: z.int().nonnegative(),
  /** Most frequent CUDA graph batch size; null: none. */
  bucket: z.int().positive().nullable(),
  /** Step time in ns with and without a CUDA graph; null: too few rows. */
  with_graph: Band.nullable(),
  eager: Band.nullable(),
});

const Population = z.strictObject({
  key: PopulationKey,
  runs: z.int().positive(),
  roles: z.array(Role),
  collectives: z.array(Collective),
  graphs: z.array(GraphUse),
});

const BaselineFile = z.strictObject({
  format: z.literal(BASELINE_FORMAT),
  version: z.literal(BASELINE_VERSION),
  trained: z.strictObject({
    at: z.iso.datetime(),
    backend: z.string(),
    seed: z.int(),
    runs: z.array(
      z.strictObject({ job: z.string(), run: z.string(), steps: z.int(), left_out: z.int(), population: z.int() }),
    ),
  }),
  populations: z.array(Population),
});

export type BaselineFile = z.infer<typeof BaselineFile>;
export type PopulationData = z.infer<typeof Population>;
export type RoleData = z.infer<typeof Role>;
export type TargetData = z.infer<typeof Target>;
export type BucketData = z.infer<typeof Bucket>;
export type CollectiveData = z.infer<typeof Collective>;
export type GraphUseData = z.infer<typeof GraphUse>;

/** Parses a baseline file. Throws `bad_input`, or `unsupported_version` for one that another Picket wrote. */
export function parseBaseline(text: string, file?: string): BaselineFile {
  const remedy = 'train it with `picket baseline train`';
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw new PicketError('bad_input', 'is not JSON', { file, remedy }, { cause });
  }
  const { format, version } = (json ?? {}) as { format?: unknown; version?: unknown };
  if (format !== BASELINE_FORMAT) throw new PicketError('bad_input', 'is not a Picket baseline', { file, remedy });
  if (version !== BASELINE_VERSION)
    throw new PicketError('unsupported_version', `version ${String(version)} is not ${BASELINE_VERSION}`, {
      file,
      field: 'version',
      remedy: 'train it again with this version of Picket',
    });
  const parsed = BaselineFile.safeParse(json);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new PicketError('bad_input', issue?.message ?? 'is damaged', { file, field: issue?.path.join('.'), remedy });
}

/** Text of a file. */
export const formatBaseline = (baseline: BaselineFile): string => `${JSON.stringify(baseline)}\n`;
