import { Command, Option } from 'commander';
import type { Baseline } from '../detector/baseline/baseline.js';
import { countBad, placeText, type QualityCounts, qualityFindings } from '../detector/detectors/data-quality.js';
import { follow } from '../detector/incidents/incident-book.js';
import { PartitionPipeline } from '../detector/pipeline/partition-pipeline.js';
import { BUILT_IN_RULES, type RulesInForce } from '../detector/rules/rules-in-force.js';
import { type ImportOptions, type ImportReport, importPaths } from '../importers/index.js';
import { PicketError } from '../protocol/errors.js';
import type { Incident } from '../protocol/incident.js';
import { readBaseline } from './config-file.js';
import { progressBar } from './progress.js';
import { renderAnalysis } from './render.js';
import { readRuleSet } from './rules/read.js';

export interface Analysis {
  /** In the order in which they were found. */
  readonly incidents: Incident[];
  /** What could not be used, as incidents of kind data_quality. */
  readonly quality: Incident[];
  readonly rows: number;
  readonly seconds: number;
  readonly unclaimed: readonly string[];
  /** Findings that rules dropped or muted, by reason. */
  readonly suppressed: ReadonlyMap<string, number>;
}

interface AnalyzeOptions {
  readonly format: string;
  readonly scenario?: string;
  readonly job?: string;
  readonly rules?: string;
  readonly baseline?: string;
}

export function analyzeCommand(): Command {
  return new Command('analyze')
    .description('Reads recorded traces (files or folders) and names what cost time in them.')
    .argument(
      '<path...>',
      "JSONL, a collector's .arrows, phases or NDTimeline parquet, Kineto/Chrome JSON; plain or .gz; or folders of them",
    )
    .addOption(new Option('--format <format>', 'output').choices(['text', 'json']).default('text'))
    .option('--scenario <name>', 'of files that hold several, the one to read')
    .option('--job <name>', 'job id, instead of the one in the files or their names')
    .option('--rules <dir>', 'folder of rule files that decide what is reported')
    .option('--baseline <file>', 'what healthy runs take, from `picket baseline train`')
    .action(async (paths: string[], { rules: folder, baseline: file, ...options }: AnalyzeOptions) => {
      const baseline = readBaseline(file, '--baseline');
      const rules = folder === undefined ? BUILT_IN_RULES : { current: await readRuleSet(folder) };
      const bar = progressBar('reading');
      const analysis = await analyze(paths, { ...options, onProgress: bar.update }, rules, baseline).finally(bar.end);
      if (analysis.rows === 0 && analysis.quality.length === 0)
        throw new PicketError('bad_input', 'holds no rows', { file: paths.join(', '), remedy: 'give a recording' });
      const { unclaimed, suppressed, ...found } = analysis;
      const result = folder === undefined ? found : { ...found, suppressed: Object.fromEntries(suppressed) };
      console.log(options.format === 'json' ? JSON.stringify(result, null, 2) : renderAnalysis(analysis));
      for (const path of options.format === 'json' ? unclaimed : [])
        console.error(`picket: not read, no importer knows it: ${path}`);
    });
}

/** Runs recorded rows through the pipeline that the detector runs live. Throws PicketError for files that cannot be read. */
export async function analyze(
  paths: readonly string[],
  options: ImportOptions,
  rules: RulesInForce = BUILT_IN_RULES,
  baseline?: Baseline,
): Promise<Analysis> {
  const started = performance.now();
  const pipeline = new PartitionPipeline(rules, baseline);
  const found = new Map<string, Incident>();
  const take = (incidents: Iterable<Incident>): void => {
    for (const incident of incidents) found.set(incident.id, incident);
  };
  const source = importPaths(paths, { ...options, onSample: (sample) => pipeline.addSamples([sample]) });
  for await (const batch of source)
    take(pipeline.add(batch, { place: '', offset: 0n, again: false }).map(({ after }) => after));
  take(pipeline.flush().map(({ after }) => after));
  take(pipeline.openIncidents());
  take(lostInImport(source.report, options.job ?? ''));
  const all = [...found.values()];
  return {
    incidents: all.filter(({ kind }) => kind !== 'data_quality'),
    quality: all.filter(({ kind }) => kind === 'data_quality'),
    rows: source.report.rows,
    seconds: Math.round(performance.now() - started) / 1000,
    unclaimed: source.report.unclaimed,
    suppressed: pipeline.counts().suppressed,
  };
}

function lostInImport({ dropped, repaired }: ImportReport, job: string): Incident[] {
  const counts: QualityCounts = new Map();
  for (const [reason, { count, first }] of [...dropped, ...repaired])
    countBad(counts, reason, count, placeText(first), 0);
  return follow(new Map(), qualityFindings(counts, job, '', 0, 0n), 0, 0n).map(({ after }) => after);
}
