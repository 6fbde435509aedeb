import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

/** The bounds on V8's heap of the deployments (deploy/picket-collector.service). */
const HEAP = ['--max-old-space-size=96', '--max-semi-space-size=4'];

/** Runs throughput.ts in a process of its own, so that its memory is that of the collector. */
export function benchCollector(): void {
  execFileSync(process.execPath, [...HEAP, join(import.meta.dirname, 'throughput.js')], { stdio: 'inherit' });
}
