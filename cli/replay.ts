import { Command } from 'commander';
import { openBus } from '../bus/open.js';
import { importPaths } from '../importers/index.js';
import { TOPICS } from '../protocol/topics.js';
import { busOf, DEFAULT_PARTITIONS, positiveNumber } from './bus-options.js';
import { progressBar } from './progress.js';
import { publish } from './publish.js';

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
        await bus.createTopics([{ topic: TOPICS.phases, partitions: DEFAULT_PARTITIONS }]);
        const { scenario, job } = options;
        const source = importPaths(paths, { scenario, job, onProgress: bar.update });
        const speed = options.speed === 'max' ? undefined : options.speed;
        const { messages, rows } = await publish(await bus.producer(), source, speed);
        bar.end();
        console.log(`published ${rows} rows in ${messages} messages`);
      } finally {
        bar.end();
        await bus.close();
      }
    });
}

const speedOf = (text: string): number | 'max' => (text === 'max' ? 'max' : positiveNumber(text));
