import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { pino } from 'pino';
import { type RunningDetector, startDetector } from '../detector/app.js';
import { parseDetectorConfig } from '../detector/config.js';
import { parseFailPoint } from '../detector/failpoints.js';
import { atYamlField } from '../protocol/yaml-config.js';
import { readBaseline, readConfigFile } from './config-file.js';

export function detectorCommand(): Command {
  return new Command('detector')
    .description('Runs the detector service until it is told to stop (SIGINT, SIGTERM); SIGHUP reloads the rules.')
    .requiredOption('--config <file>', 'YAML; deploy/detector.yaml is a complete example')
    .action(async ({ config: file }: { config: string }) => {
      const text = readConfigFile(file);
      const config = parseDetectorConfig(text, file);
      const log = pino({ level: config.log_level });
      const spec = process.env.PICKET_FAILPOINT;
      let running: RunningDetector | undefined;
      // From the start on: unheard, the signal would end the process.
      process.on('SIGHUP', () => running?.reloadRules());
      const detector = await startDetector({
        config,
        baseline: readBaseline(config.baseline, '"baseline"'),
        log,
        secrets: { env: process.env, readFile: (path) => readFileSync(path, 'utf8') },
        failPoints: spec ? parseFailPoint(spec, () => process.kill(process.pid, 'SIGKILL')) : undefined,
        onFatal: (error) => {
          log.fatal({ err: error }, 'the consumer has stopped for good: exiting, to be started again');
          process.exit(1);
        },
      }).catch((error) => {
        throw atYamlField(error, text, file);
      });
      running = detector;
      const signal = await new Promise<string>((resolve) => {
        for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => resolve(name));
      });
      log.info({ signal }, 'stopping');
      await detector.close();
    });
}
