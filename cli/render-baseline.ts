import { type Band, bandOf } from '../detector/baseline/conformal.js';
import type {
  BaselineFile,
  CollectiveData,
  GraphUseData,
  PopulationData,
  RoleData,
  TargetData,
} from '../detector/baseline/format.js';
import { describePopulation } from '../detector/baseline/population-key.js';
import { busFactor } from '../detector/baseline/transfers.js';

/** What a baseline was learnt from. */
export const renderTrained = ({ trained }: BaselineFile): string =>
  trained.runs
    .map(({ job, run, steps, left_out }) => `${job} (run ${run}): ${steps} steps, ${left_out} of them left out`)
    .join('\n');

/** What a person reads of a baseline: where it comes from, what it expects, and how far that can be trusted. */
export function renderBaseline(file: BaselineFile): string {
  const { at, backend, seed } = file.trained;
  const origin = `Trained ${at} by TensorFlow.js on ${backend}, seed ${seed}, from\n${renderTrained(file)}`;
  return [origin, ...file.populations.map(renderPopulation), LEGEND].join('\n\n');
}

const LEGEND = `typical: median duration. band: 90 % of healthy steps of runs not seen yet, about what is predicted for their shape.
held out: share inside the 90 % band of held-out steps of the same runs; its distance from 90 % is the calibration error.
spread: how far runs and ranks lie apart by nature (one standard deviation).`;

function renderPopulation({ key, runs, roles, collectives, graphs }: PopulationData): string {
  return [
    `Population: ${describePopulation(key)} (${runs} ${runs === 1 ? 'run' : 'runs'})`,
    ...roles.map(renderRole),
    ...(collectives.length > 0 ? [table(COLLECTIVES, collectives.map(collectiveCells))] : []),
    ...(graphs.length > 0 ? [table(GRAPHS, graphs.map(graphCells))] : []),
  ].join('\n\n');
}

function renderRole({ stage, rows, features, targets, buckets }: RoleData): string {
  const cells = Object.entries(buckets).flatMap(([bucket, { targets: known }]) =>
    targets.flatMap(({ name }) => (known[name] ? [[bucket, name, ...targetCells(known[name])]] : [])),
  );
  const inputs = features.map(({ name }) => name).join(', ');
  const who = stage < 0 ? 'All ranks' : `Stage ${stage}`;
  return `${who}: ${rows} rank-steps, predicted from ${inputs}\n${table(TARGETS, cells)}`;
}

const TARGETS = ['bucket', 'work', 'samples', 'typical ms', 'band', 'held out', 'spread'];

function targetCells(target: TargetData): string[] {
  const { q05, q95 } = bandOf(target, 0);
  return [
    String(target.rows),
    millis(target.typical_ns),
    `${percent(q05 - 1)} to ${percent(q95 - 1)}`,
    target.coverage === null ? '-' : `${(100 * target.coverage).toFixed(0)} %`,
    spreadOf(target),
  ];
}

const COLLECTIVES = [
  'collective',
  'ranks',
  'hosts',
  'launch',
  'bytes',
  'samples',
  'p05 us',
  'p50 us',
  'p95 us',
  'GB/s',
  'spread',
];

function collectiveCells({ op, ranks, hosts, launch, bytes, center, transfer }: CollectiveData): string[] {
  const { q05, q50, q95 } = bandOf(transfer, center);
  const factor = busFactor(op, ranks);
  const busbw = factor === undefined ? '-' : ((factor * bytes) / q50).toFixed(1);
  const micros = [q05, q50, q95].map((ns) => (ns / 1e3).toFixed(1));
  const shape = [op, ranks, hosts, launch, Math.round(bytes), transfer.rows].map(String);
  return [...shape, ...micros, busbw, spreadOf(transfer)];
}

const GRAPHS = ['decodes', 'samples', 'in a graph', 'graph batch', 'step ms in it', 'step ms eager'];

function graphCells({ decode_tokens, rows, graph_rows, bucket, with_graph, eager }: GraphUseData): string[] {
  const typical = (band: Band | null): string => (band ? millis(band.q50) : '-');
  return [...[decode_tokens, rows, graph_rows, bucket ?? '-'].map(String), typical(with_graph), typical(eager)];
}

const millis = (ns: number): string => (ns / 1e6).toFixed(3);
const percent = (share: number): string => `${share > 0 ? '+' : ''}${(100 * share).toFixed(1)} %`;
const spreadOf = ({ run_spread, rank_spread }: Pick<TargetData, 'run_spread' | 'rank_spread'>): string =>
  `${(100 * Math.hypot(run_spread, rank_spread)).toFixed(1)} %`;

/** Words to the left, numbers to the right. */
function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = header.map((name, i) => Math.max(name.length, ...rows.map((row) => (row[i] as string).length)));
  const isNumber = header.map((_, i) => rows.every((row) => /^[-+\d]/.test(row[i] as string)));
  return [header, ...rows]
    .map((row) =>
      row.map((cell, i) => (isNumber[i] ? cell.padStart(widths[i] as number) : cell.padEnd(widths[i] as number))),
    )
    .map((cells) => `  ${cells.join('  ')}`.trimEnd())
    .join('\n');
}
