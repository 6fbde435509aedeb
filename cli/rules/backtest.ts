import { Command, InvalidArgumentError, Option } from 'commander';
import { loadBaseline } from '../../detector/baseline/baseline.js';
import { importPaths } from '../../importers/index.js';
import { PicketError } from '../../protocol/errors.js';
import type { SampleRow } from '../../protocol/sample.js';
import { wholeNumber } from '../bus-options.js';
import { readConfigFile } from '../config-file.js';
import { progressBar } from '../progress.js';
import { type BacktestReport, renderBacktest } from './backtest-report.js';
import { Backtest, differenceOf, isAlert, tallies } from './backtest-run.js';
import { readKafkaRange } from './kafka-range.js';
import { readRuleSet } from './read.js';
import { readRuleSetAt, readRuleSetOf } from './refs.js';

interface Options {
  readonly rules: string;
  readonly at?: string;
  readonly against?: string;
  readonly maxAlerts?: number;
  readonly format: 'text' | 'json';
  readonly scenario?: string;
  readonly job?: string;
  readonly baseline?: string;
  readonly brokers?: string;
  readonly since?: number;
  readonly until?: number;
}

export function backtestCommand(): Command {
  return new Command('backtest')
    .description('Says what rules would have reported on recorded rows; nothing is stored and nobody is told.')
    .argument('[path...]', 'what `picket analyze` reads')
    .option('--rules <dir>', 'folder of the rules to try', 'rules')
    .option('--at <ref>', 'take them as they are in this Git commit instead of the folder')
    .option('--against <ref|dir>', 'show the difference to the rules of a Git commit or of another folder')
    .option('--max-alerts <n>', 'exit 1 when more incidents than this reach warning or critical', wholeNumber)
    .addOption(new Option('--format <format>', 'output').choices(['text', 'json']).default('text'))
    .option('--scenario <name>', 'of files that hold several, the one to read')
    .option('--job <name>', 'job id, instead of the one in the files or their names')
    .option('--baseline <file>', 'what healthy runs take, as `picket analyze` takes it')
    .option('--brokers <host:port,...>', 'read from Kafka instead of files')
    .option('--since <time>', 'of Kafka: messages published from then on', timeOf)
    .option('--until <time>', 'of Kafka: messages published before then', timeOf)
    .action(async (paths: string[], options: Options) => {
      const report = await backtest(paths, options);
      console.log(options.format === 'json' ? JSON.stringify(report, null, 2) : renderBacktest(report));
      if (report.limit !== null && report.alerts > report.limit) process.exitCode = 1;
    });
}

async function backtest(paths: readonly string[], options: Options): Promise<BacktestReport> {
  const { rules, at, against, maxAlerts } = options;
  const { baseline: file } = options;
  const baseline = file === undefined ? undefined : loadBaseline(readConfigFile(file, '--baseline'), file);
  const trial = new Backtest(at === undefined ? await readRuleSet(rules) : await readRuleSetAt(at, rules), baseline);
  const other = against === undefined ? undefined : new Backtest(await readRuleSetOf(against, rules), baseline);
  const rows = await feed(paths, options, [trial, ...(other ? [other] : [])]);
  const { fired, suppressed } = trial.finish();
  return {
    commit: trial.set.commit,
    against: other?.set.commit ?? null,
    rows,
    alerts: fired.filter(isAlert).length,
    limit: maxAlerts ?? null,
    rules: tallies(trial.set, fired),
    fired,
    suppressed: Object.fromEntries(suppressed),
    without_value: Object.fromEntries(trial.withoutValue()),
    difference: other ? differenceOf(other.finish().fired, fired) : null,
  };
}

/** Gives all backtests the same rows; returns how many. */
async function feed(paths: readonly string[], options: Options, tests: readonly Backtest[]): Promise<number> {
  const { brokers, since, until, scenario, job } = options;
  if ((brokers === undefined) === (paths.length === 0))
    throw new PicketError('bad_input', 'nothing to read rows from, or two things', {
      remedy: 'give files, or --brokers HOST:PORT',
    });
  let rows = 0;
  if (brokers !== undefined) {
    const range = { brokers: brokers.split(','), sinceMs: since, untilMs: until };
    const { unreadable } = await readKafkaRange(range, (batch) => {
      rows += batch.length;
      for (const test of tests) test.add(batch);
    });
    if (unreadable > 0) console.error(`picket: ${unreadable} messages could not be read`);
    return rows;
  }
  const bar = progressBar('reading');
  const onSample = (sample: SampleRow): void => {
    for (const test of tests) test.addSample(sample);
  };
  const source = importPaths(paths, { scenario, job, onProgress: bar.update, onSample });
  try {
    for await (const batch of source) for (const test of tests) test.add(batch);
  } finally {
    bar.end();
  }
  for (const path of source.report.unclaimed) console.error(`picket: not read, no importer knows it: ${path}`);
  return source.report.rows;
}

function timeOf(text: string): number {
  const ms = Date.parse(text);
  if (Number.isNaN(ms)) throw new InvalidArgumentError('must be a time, such as 2026-01-31T08:00:00Z.');
  return ms;
}
