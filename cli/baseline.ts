import { readFileSync, writeFileSync } from 'node:fs';
import { Command, InvalidArgumentError, Option } from 'commander';
import { type BaselineFile, formatBaseline, parseBaseline } from '../detector/baseline/format.js';
import { BACKENDS, type BackendName, loadTensorFlow } from '../detector/baseline/tensorflow.js';
import { trainBaseline } from '../detector/baseline/train.js';
import { type TrainingRun, TrainingSet } from '../detector/baseline/training-set.js';
import { importPaths } from '../importers/index.js';
import { PicketError } from '../protocol/errors.js';
import { progressBar } from './progress.js';
import { renderBaseline, renderTrained } from './render-baseline.js';

interface TrainOptions {
  readonly out: string;
  readonly scenario: readonly string[];
  readonly seed: number;
  readonly backend?: BackendName;
}

export function baselineCommand(): Command {
  const baseline = new Command('baseline').description(
    'Learns what healthy runs take, so that jobs which are slow from their first step are seen.',
  );
  for (const command of [trainCommand, showCommand]) baseline.addCommand(command().exitOverride());
  return baseline;
}

function trainCommand(): Command {
  return new Command('train')
    .description('Learns a baseline from recorded traces; steps in which an incident is found are left out.')
    .argument('<path...>', 'recorded traces: files that `picket analyze` reads, or folders of them')
    .requiredOption('--out <file>', 'baseline to write')
    .addOption(
      new Option('--scenario <name>', 'of files that hold several, one to read; may be repeated')
        .argParser((name: string, names: string[]) => [...names, name])
        .default([] as string[], 'all'),
    )
    .addOption(new Option('--seed <n>', 'the same rows and seed give the same baseline').argParser(integer).default(1))
    .addOption(
      new Option('--backend <name>', 'TensorFlow.js backend, instead of the first that loads').choices(BACKENDS),
    )
    .action(async (paths: string[], options: TrainOptions) => {
      const started = performance.now();
      const backend = await loadTensorFlow(options.backend ? [options.backend] : BACKENDS);
      const runs = await readRuns(paths, options);
      const file = trainBaseline(backend, runs, { seed: options.seed, at: new Date().toISOString() });
      write(options.out, file);
      const seconds = (performance.now() - started) / 1000;
      console.log(renderTrained(file));
      console.log(`${options.out} written in ${seconds.toFixed(1)} s by TensorFlow.js on ${backend.name}`);
      for (const { name, why } of backend.passedOver) console.log(`not on ${name}: ${why}`);
    });
}

function showCommand(): Command {
  return new Command('show')
    .description('Shows what a baseline expects, what it was trained on, and how well it is calibrated.')
    .argument('<file>', 'baseline')
    .action((file: string) => console.log(renderBaseline(readBaselineFile(file))));
}

/** Reads a baseline. Throws PicketError where it cannot be read or is of another version. */
export function readBaselineFile(file: string): BaselineFile {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (cause) {
    const problem = `cannot be read (${(cause as NodeJS.ErrnoException).code})`;
    throw new PicketError(
      'bad_input',
      problem,
      { file, remedy: 'give a file that `picket baseline train` wrote' },
      { cause },
    );
  }
  return parseBaseline(text, file);
}

function integer(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new InvalidArgumentError('not an integer');
  return value;
}

async function readRuns(paths: readonly string[], { scenario, seed }: TrainOptions): Promise<TrainingRun[]> {
  const set = new TrainingSet(seed);
  for (const one of scenario.length > 0 ? scenario : [undefined]) {
    const bar = progressBar('reading');
    try {
      for await (const batch of importPaths(paths, { scenario: one, onProgress: bar.update })) set.add(batch);
    } finally {
      bar.end();
    }
  }
  return set.finish();
}

function write(path: string, file: BaselineFile): void {
  if (!file.populations.some(({ roles, collectives }) => roles.length + collectives.length > 0))
    throw new PicketError('bad_input', 'there are too few healthy steps to learn from', {
      remedy: 'give longer recordings: a phase needs 20 held-out rank-steps of one graph and kind of batch',
    });
  try {
    writeFileSync(path, formatBaseline(file));
  } catch (cause) {
    const problem = `cannot be written (${(cause as NodeJS.ErrnoException).code})`;
    throw new PicketError('bad_input', problem, { file: path, remedy: 'give another --out' }, { cause });
  }
}
