import { Command } from 'commander';
import { openBus } from '../bus/open.js';
import { type ImportOptions, importPaths } from '../importers/index.js';
import type { SampleRow } from '../protocol/sample.js';
import { TOPICS } from '../protocol/topics.js';
import { busOf, DEFAULT_PARTITIONS, positiveNumber } from './bus-options.js';
import { progressBar } from './progress.js';
import { type Publishable, publish } from './publish.js';

interface ReplayOptions {
  brokers?: string;
  log?: string;
  speed?: number | 'max';
  scenario?: string;
  job?: string;
}

export function replayCommand(): Command {
  return new Command('replay')
    .description('Publishes a recorded trace as if it were happening now.')
    .argument('<path...>', 'what `picket analyze` reads')
    .option('--brokers <host:port,...>', 'Kafka brokers')
    .option('--log <dir>', 'folder of an embedded log, instead of Kafka')
    .option('--speed <x>', 'times the pace at which it was recorded; max: as fast as the bus takes it', speedOf, 1)
    .option('--scenario <name>', 'of files that hold several, the one to publish')
    .option('--job <name>', 'job id, instead of the one in the files or their names')
    .action(async (paths: string[], options: ReplayOptions) => {
      const bus = await openBus(busOf(options));
      const bar = progressBar('publishing');
      try {
        await bus.createTopics(
          [TOPICS.phases, TOPICS.samples].map((topic) => ({ topic, partitions: DEFAULT_PARTITIONS })),
        );
        const { scenario, job } = options;
        const source = withSamples(paths, { scenario, job, onProgress: bar.update });
        const speed = options.speed === 'max' ? undefined : options.speed;
        const { messages, rows, samples } = await publish(await bus.producer(), source, speed);
        bar.end();
        console.log(`published ${rows} rows and ${samples} samples in ${messages} messages`);
      } finally {
        bar.end();
        await bus.close();
      }
    });
}

const speedOf = (text: string): number | 'max' => (text === 'max' ? 'max' : positiveNumber(text));

/** Rows and, before the rows that follow them in the file, samples. */
async function* withSamples(paths: readonly string[], options: ImportOptions): AsyncGenerator<Publishable> {
  const samples: SampleRow[] = [];
  const take = (): SampleRow[] => samples.splice(0);
  for await (const batch of importPaths(paths, { ...options, onSample: (sample) => samples.push(sample) })) {
    if (samples.length > 0) yield take();
    yield batch;
  }
  if (samples.length > 0) yield take();
}
