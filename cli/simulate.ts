import { createWriteStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Command } from 'commander';
import { openBus } from '../bus/open.js';
import { PicketError } from '../protocol/errors.js';
import { formatPhaseLine, formatSampleLine } from '../protocol/jsonl.js';
import { TOPICS } from '../protocol/topics.js';
import { SCENARIOS, type SimulatedMessage, type SimulateOptions, simulateStream } from '../simulator/simulate.js';
import { busOf, DEFAULT_PARTITIONS, positiveNumber, wholeNumber } from './bus-options.js';
import { cannotWrite } from './config-file.js';
import { type Publishable, publish } from './publish.js';

interface Options {
  scenario: string;
  ranks: number;
  steps: number;
  seed: number;
  strength?: number;
  onset?: number;
  job?: string;
  out?: string;
  brokers?: string;
  log?: string;
}

export function simulateCommand(): Command {
  return new Command('simulate')
    .description('Makes the rows of a fleet with a known fault: JSONL on standard output or into a file, or live.')
    .requiredOption('--scenario <name>', `one of ${Object.keys(SCENARIOS).join(', ')}`)
    .requiredOption('--ranks <n>', 'number of GPUs', wholeNumber)
    .requiredOption('--steps <n>', 'number of steps', wholeNumber)
    .option('--seed <n>', 'the same seed gives the same rows', wholeNumber, 1)
    .option('--strength <share>', 'how strong the fault is, as a share of the work or step', positiveNumber)
    .option('--onset <step>', 'the first faulty step', wholeNumber)
    .option('--job <name>', 'job id')
    .option('--out <file>', 'write JSONL here')
    .option('--brokers <host:port,...>', 'publish to Kafka')
    .option('--log <dir>', 'publish to an embedded log')
    .action(async ({ out, brokers, log, ...options }: Options) => {
      if (out !== undefined && (brokers ?? log) !== undefined)
        throw new PicketError('bad_input', 'goes with neither --brokers nor --log', {
          field: '--out',
          remedy: 'write the file first, then `picket replay` it',
        });
      const messages = messagesOf(simulateStream(options satisfies SimulateOptions));
      if (brokers === undefined && log === undefined) {
        const target = out === undefined ? process.stdout : createWriteStream(out);
        const written = { rows: 0, samples: 0 };
        await pipeline(Readable.from(linesOf(messages, written)), target, { end: out !== undefined }).catch((cause) => {
          throw cannotWrite(cause, out);
        });
        if (out !== undefined) console.log(`${written.rows} rows and ${written.samples} samples are in ${out}`);
        return;
      }
      const bus = await openBus(busOf({ ...(brokers && { brokers }), ...(log && { log }) }));
      try {
        await bus.createTopics(
          [TOPICS.phases, TOPICS.samples].map((topic) => ({ topic, partitions: DEFAULT_PARTITIONS })),
        );
        const published = await publish(await bus.producer(), messages, undefined);
        console.log(
          `published ${published.rows} rows and ${published.samples} samples in ${published.messages} messages`,
        );
      } finally {
        await bus.close();
      }
    });
}

function* messagesOf(stream: Iterable<SimulatedMessage>): Generator<Publishable> {
  for (const message of stream) yield message.type === 'phases' ? message.batch : message.samples;
}

/** @param written counts them */
function* linesOf(messages: Iterable<Publishable>, written: { rows: number; samples: number }): Generator<string> {
  for (const message of messages) {
    let text = '';
    if ('columns' in message) for (let i = 0; i < message.length; i++) text += `${formatPhaseLine(message, i)}\n`;
    else for (const sample of message) text += `${formatSampleLine(sample)}\n`;
    written['columns' in message ? 'rows' : 'samples'] += message.length;
    yield text;
  }
}
