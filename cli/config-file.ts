import { readFileSync } from 'node:fs';
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
