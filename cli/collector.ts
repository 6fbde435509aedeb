import { existsSync, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { Command } from 'commander';
import { pino } from 'pino';
import { startCollector } from '../collector/app.js';
import { parseCollectorConfig } from '../collector/config.js';
import { atYamlField } from '../protocol/yaml-config.js';
import { readConfigFile } from './config-file.js';

export function collectorCommand(): Command {
  return new Command('collector')
    .description('Reads the fences of the engines on this host and sends their phases, until it is told to stop.')
    .requiredOption('--config <file>', 'YAML; deploy/collector.yaml is a complete example')
    .action(async ({ config: file }: { config: string }) => {
      const text = readConfigFile(file);
      const config = parseCollectorConfig(text, file);
      const log = pino({ level: config.log_level });
      const collector = await startCollector({
        config,
        host: config.host ?? hostname(),
        version: version(),
        log,
        onFatal: (error) => {
          log.fatal({ err: error }, 'the collector has failed: exiting, to be started again');
          process.exit(1);
        },
      }).catch((error) => {
        throw atYamlField(error, text, file);
      });
      log.info({ url: collector.url, segments: config.segments_dir }, 'collector ready');
      const signal = await new Promise<string>((resolve) => {
        for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => resolve(name));
      });
      log.info({ signal }, 'stopping');
      await collector.close();
    });
}

/** Compiled programs lie at different depths below the package. */
function version(): string {
  for (let folder = import.meta.dirname; folder !== dirname(folder); folder = dirname(folder)) {
    const file = join(folder, 'package.json');
    if (existsSync(file)) return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
  }
  return 'unknown';
}
