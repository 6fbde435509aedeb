import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Command } from 'commander';
import { pino } from 'pino';
import { openBus } from '../bus/open.js';
import { startDetector } from '../detector/app.js';
import { parseDetectorConfig } from '../detector/config.js';
import type { Store } from '../detector/store/store.js';
import { importPaths } from '../importers/index.js';
import { simulate } from '../simulator/simulate.js';
import { positiveNumber } from './bus-options.js';
import { publish } from './publish.js';
import { renderIncident } from './render.js';

/** Two H200 GPUs decoding with tensor parallel 2, recorded by fences; from step 250 one host sleeps before each launch. */
const EXCERPT = fileURLToPath(new URL('../../fixtures/h200-tp2-excerpt', import.meta.url));
const DEFAULT_SECONDS = 15;
/** Simulated steps take a second; a demo does not have the patience. */
const SIMULATED_SPEED = 20;
const SIMULATED_STEPS = 240;
const POLL_MS = 200;

export function demoCommand(): Command {
  return new Command('demo')
    .description('Shows Picket at work: a recorded trace and a simulated fleet, through the log, into incidents.')
    .option('--seconds <n>', 'how long', positiveNumber, DEFAULT_SECONDS)
    .action(async ({ seconds }: { seconds: number }) => {
      const folder = mkdtempSync(join(tmpdir(), 'picket-demo-'));
      try {
        await demo(folder, seconds);
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    });
}

async function demo(folder: string, seconds: number): Promise<void> {
  const logDir = join(folder, 'log');
  const yaml = `{http: {host: 127.0.0.1, port: 0}, bus: {kind: embedded, dir: ${JSON.stringify(logDir)}, fsync: never},
    store: {path: ${JSON.stringify(join(folder, 'store.db'))}}, log_level: silent, idle_seconds: 2}`;
  const detector = await startDetector({
    config: parseDetectorConfig(yaml, 'demo'),
    log: pino({ level: 'silent' }),
    secrets: { env: {}, readFile: () => '' },
    onFatal: (error) => console.error(error),
  });
  const bus = await openBus({ kind: 'embedded', dir: logDir, fsync: 'never' });
  try {
    console.log(`A detector with an embedded log listens at ${detector.url}/v1/incidents\n`);
    console.log('Publishing a trace of two H200 GPUs (real), and two simulated training jobs of 16 and 8 GPUs ...\n');
    const producer = await bus.producer();
    const fleet = [
      publish(producer, importPaths([EXCERPT]), 1),
      ...[
        { scenario: 'straggler', ranks: 16, steps: SIMULATED_STEPS, seed: 1 },
        { scenario: 'stage', ranks: 8, steps: SIMULATED_STEPS, seed: 2 },
      ].map((options) => publish(producer, simulate(options), SIMULATED_SPEED)),
    ];
    const publishing = Promise.all(fleet);
    await Promise.race([showIncidents(detector.store, seconds), publishing.then(() => new Promise<never>(() => {}))]);
  } finally {
    await bus.close();
    await detector.close();
  }
  console.log(NEXT);
}

/** Prints incidents as they open, for so long. */
async function showIncidents(store: Store, seconds: number): Promise<void> {
  const shown = new Set<string>();
  const end = performance.now() + seconds * 1000;
  while (performance.now() < end) {
    for (const incident of store.listIncidents({}, undefined, 100).items.reverse()) {
      if (shown.has(incident.id) || incident.kind === 'data_quality') continue;
      shown.add(incident.id);
      console.log(`${renderIncident(incident)}\n`);
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

const NEXT = `That was all. What to try next:
  npx picket analyze fixtures/h200-tp2-excerpt          the same trace from its file
  npx picket simulate --scenario straggler-data --ranks 8 --steps 200 --out run.jsonl
  npx picket analyze run.jsonl                          your own traces too: JSONL, parquet, Kineto
  npx picket doctor                                     what works on this machine
  npx picket detector --config deploy/detector-local.yaml   the service on this machine; see README.md`;
