import { quantile, sortedKnown } from '../reference/statistics.js';
import { type Band, calibrate, MIN_RESIDUALS, type Residual, TRANSFER_SPREAD } from './conformal.js';
import {
  BASELINE_FORMAT,
  BASELINE_VERSION,
  type BaselineFile,
  type CollectiveData,
  type GraphUseData,
  type PopulationData,
} from './format.js';
import { groupBy } from './group-by.js';
import { populationName } from './population-key.js';
import { STEP_TIME } from './shape.js';
import type { Backend } from './tensorflow.js';
import { type RoleSample, trainRole } from './train-role.js';
import type { TrainingRun } from './training-set.js';

export interface TrainingOptions {
  readonly seed: number;
  /** ISO time, for the file. */
  readonly at: string;
}

/** Learns what healthy runs take. The same runs, seed and backend give the same file. */
export function trainBaseline(
  { tf, name: backend }: Backend,
  runs: readonly TrainingRun[],
  { seed, at }: TrainingOptions,
): BaselineFile {
  const populations = groupBy(runs, ({ population }) => populationName(population));
  const names = [...populations.keys()];
  return {
    format: BASELINE_FORMAT,
    version: BASELINE_VERSION,
    trained: {
      at,
      backend,
      seed,
      runs: runs.map(({ job, run, steps, leftOut, population }) => {
        return { job, run, steps, left_out: leftOut, population: names.indexOf(populationName(population)) };
      }),
    },
    populations: [...populations.values()].map((own) => trainPopulation(tf, own, seed)),
  };
}

function trainPopulation(tf: Backend['tf'], runs: readonly TrainingRun[], seed: number): PopulationData {
  const samples = runs.flatMap(({ work }, runIndex) => work.map((sample): RoleSample => ({ ...sample, runIndex })));
  const roles = [...groupBy(samples, ({ stage }) => stage)].sort(([a], [b]) => a - b);
  return {
    key: (runs[0] as TrainingRun).population,
    runs: runs.length,
    roles: roles.flatMap(([stage, own]) => trainRole(tf, stage, own, seed) ?? []),
    collectives: collectivesOf(runs),
    graphs: graphUseOf(samples),
  };
}

/** Message sizes that differ by less than 9 % are one. */
const sizeClass = (bytes: number): number => Math.round(4 * Math.log2(bytes));

function collectivesOf(runs: readonly TrainingRun[]): CollectiveData[] {
  const seen = runs.flatMap(({ transfers }, run) => transfers.map((sample) => ({ run, ...sample.transfers })));
  const classes = groupBy(seen, ({ op, ranks, hosts, launch, bytes }) =>
    [op, ranks, hosts, launch, sizeClass(bytes)].join(' '),
  );
  const collectives = [...classes.values()].flatMap((own) => {
    const center = quantile(sortedKnown(own.map(({ transferNs }) => Math.log(transferNs))), 0.5);
    const groups = [...new Set(own.map(({ group }) => group))];
    const residuals = own.map(
      ({ run, group, transferNs }): Residual => ({
        run,
        rank: groups.indexOf(group),
        value: Math.log(transferNs) - center,
      }),
    );
    const transfer = calibrate(residuals, [], TRANSFER_SPREAD);
    const { op, ranks, hosts, launch } = own[0] as (typeof own)[number];
    const bytes = Math.exp(own.reduce((sum, one) => sum + Math.log(one.bytes), 0) / own.length);
    return transfer ? [{ op, ranks, hosts, launch, bytes, center, transfer }] : [];
  });
  const order = ({ op, ranks, hosts, launch }: CollectiveData): string => [op, ranks, hosts, launch].join(' ');
  return collectives.sort((a, b) => order(a).localeCompare(order(b), 'en', { numeric: true }) || a.bytes - b.bytes);
}

/** How decode-only steps of each batch size were launched, and what they took. */
function graphUseOf(samples: readonly RoleSample[]): GraphUseData[] {
  const decodes = samples.filter(
    ({ shape }) => shape.decodeTokens > 0 && !(shape.prefillTokens > 0) && shape.graph >= 0,
  );
  const sizes = [...groupBy(decodes, ({ shape }) => shape.decodeTokens)].sort(([a], [b]) => a - b);
  return sizes.map(([decode_tokens, own]) => {
    const inGraph = own.filter(({ shape }) => shape.graph > 0);
    const buckets = [...groupBy(inGraph, ({ shape }) => shape.graph)].sort(([, a], [, b]) => b.length - a.length);
    return {
      decode_tokens,
      rows: own.length,
      graph_rows: inGraph.length,
      bucket: buckets[0]?.[0] ?? null,
      with_graph: stepTimesOf(inGraph),
      eager: stepTimesOf(own.filter(({ shape }) => shape.graph === 0)),
    };
  });
}

function stepTimesOf(samples: readonly RoleSample[]): Band | null {
  const sorted = sortedKnown(samples.map(({ durations }) => durations.get(STEP_TIME) ?? Number.NaN));
  if (sorted.length < MIN_RESIDUALS) return null;
  return { q05: quantile(sorted, 0.05), q50: quantile(sorted, 0.5), q95: quantile(sorted, 0.95) };
}
