import { readFileSync } from 'node:fs';
import { type Baseline, loadBaseline } from '../detector/baseline/baseline.js';
import { PicketError } from '../protocol/errors.js';

/** The text of a configuration file. Throws `bad_config` where it cannot be read. */
export function readConfigFile(file: string, option = '--config'): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    const problem = `cannot be read (${(cause as NodeJS.ErrnoException).code})`;
    throw new PicketError('bad_config', problem, { file, remedy: `give an existing file to ${option}` }, { cause });
  }
}

/** A baseline, where a file is named. Throws `bad_config` or `bad_input` where it cannot be used. */
export const readBaseline = (file: string | undefined, option: string): Baseline | undefined =>
  file === undefined ? undefined : loadBaseline(readConfigFile(file, option), file);

/** What to throw where a file cannot be written: EPIPE and the like stay what they are. */
export function cannotWrite(cause: unknown, file: string | undefined): unknown {
  const { code } = cause as NodeJS.ErrnoException;
  if (file === undefined || !code) return cause;
  const remedy = 'give a path in a folder that exists and may be written';
  return new PicketError('bad_input', `cannot be written (${code})`, { file, remedy }, { cause });
}
