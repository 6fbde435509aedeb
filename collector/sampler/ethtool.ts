import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { meaningOf } from '../../protocol/sample-meaning.js';
import type { Reading } from './reading.js';

const run = promisify(execFile);
const TIMEOUT_MS = 2000;

/** Pause frames of a device, which sysfs does not have. Throws where the program cannot be run. */
export async function readPauses(ethtool: string, device: string, nic: string): Promise<Reading[]> {
  const { stdout } = await run(ethtool, ['-S', device], { timeout: TIMEOUT_MS });
  return [...stdout.matchAll(/^\s*(\w+): (\d+)$/gm)].flatMap(([, name = '', value]) =>
    PAUSES.has(meaningOf({ name, unit: '' })?.role ?? '')
      ? [{ name, value: Number(value), cumulative: true, nic }]
      : [],
  );
}

const PAUSES: ReadonlySet<string> = new Set(['tx_pause', 'rx_pause', 'tx_pause_ns']);
