import { Command, CommanderError } from 'commander';
import { PicketError } from '../protocol/errors.js';
import { analyzeCommand } from './analyze.js';
import { baselineCommand } from './baseline.js';
import { collectorCommand } from './collector.js';
import { demoCommand } from './demo.js';
import { detectorCommand } from './detector.js';
import { doctorCommand } from './doctor.js';
import { incidentsCommand } from './incidents.js';
import { notificationsCommand } from './notifications.js';
import { printable } from './printable.js';
import { replayCommand } from './replay.js';
import { rulesCommand } from './rules.js';
import { silencesCommand } from './silences.js';
import { simulateCommand } from './simulate.js';

/** Exit codes: 0 ok, 1 failed check, 2 wrong use or bad input. */
const WRONG_USE = 2;

const program = new Command('picket')
  .description('Names what costs time in LLM training and serving on GPU fleets, and why.')
  .exitOverride()
  .showHelpAfterError('(add --help for the options)');
for (const command of [
  demoCommand,
  collectorCommand,
  detectorCommand,
  analyzeCommand,
  replayCommand,
  rulesCommand,
  incidentsCommand,
  silencesCommand,
  notificationsCommand,
  baselineCommand,
  simulateCommand,
  doctorCommand,
])
  program.addCommand(command().exitOverride());

// `picket analyze … | head` closes our output early; that is no error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});

try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : WRONG_USE;
  else if (error instanceof PicketError) {
    console.error(`picket: ${error.message.split('\n').map(printable).join('\n')}`);
    process.exitCode = WRONG_USE;
  } else {
    console.error(error);
    process.exitCode = 1;
  }
}
