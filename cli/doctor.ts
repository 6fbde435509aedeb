import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { type BusOptions, openBus } from '../bus/open.js';
import { openSqliteStore } from '../detector/store/sqlite-store.js';

/** What was found, or why a thing does not work; only required things make the check fail. */
interface Check {
  readonly name: string;
  readonly required: boolean;
  run(): Promise<string> | string;
}

export function doctorCommand(): Command {
  return new Command('doctor')
    .description('Says what works on this machine, and why not. Exit 1 when something required does not.')
    .option('--brokers <host:port,...>', 'also ask these Kafka brokers')
    .action(async ({ brokers }: { brokers?: string }) => {
      const folder = mkdtempSync(join(tmpdir(), 'picket-doctor-'));
      try {
        const checks = [...checksOf(folder), ...(brokers ? [kafkaCheck(brokers)] : [])];
        const results = [];
        for (const check of checks) results.push(await report(check));
        process.exitCode = results.every(Boolean) ? 0 : 1;
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    });
}

async function report({ name, required, run }: Check): Promise<boolean> {
  try {
    console.log(`ok    ${name.padEnd(14)} ${await run()}`);
    return true;
  } catch (error) {
    console.log(`${required ? 'FAIL ' : 'none '} ${name.padEnd(14)} ${(error as Error).message}`);
    return !required;
  }
}

const OLDEST_NODE = [20, 19] as const;

function checksOf(folder: string): Check[] {
  return [
    { name: 'Node.js', required: true, run: nodeVersion },
    { name: 'store', required: true, run: () => storeWorks(join(folder, 'store.db')) },
    { name: 'embedded log', required: true, run: () => busWorks({ kind: 'embedded', dir: join(folder, 'log') }) },
    { name: 'NVIDIA driver', required: false, run: driverVersion },
  ];
}

const kafkaCheck = (brokers: string): Check => ({
  name: 'Kafka',
  required: true,
  run: () => busWorks({ kind: 'kafka', brokers: brokers.split(','), retries: 1 }),
});

function nodeVersion(): string {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const [oldMajor, oldMinor] = OLDEST_NODE;
  if (major > oldMajor || (major === oldMajor && minor >= oldMinor)) return process.versions.node;
  throw new Error(`${process.versions.node} is too old: install ${oldMajor}.${oldMinor} or newer`);
}

function storeWorks(path: string): string {
  const store = openSqliteStore({ path, now: Date.now });
  store.check();
  store.close();
  return 'SQLite writes and reads';
}

async function busWorks(options: BusOptions): Promise<string> {
  const bus = await openBus(options);
  try {
    await bus.producer();
    return options.kind === 'kafka' ? `${options.brokers.join(', ')} answer` : 'writes';
  } finally {
    await bus.close();
  }
}

function driverVersion(): string {
  const file = '/proc/driver/nvidia/version';
  if (!existsSync(file)) throw new Error('no NVIDIA driver here; the detector needs none');
  return /Module\s+([\d.]+)/.exec(readFileSync(file, 'utf8'))?.[1] ?? 'version unknown';
}
