import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { openBus } from '../../bus/open.js';
import { decodePhases } from '../../protocol/arrow.js';
import type { Incident, IncidentKind } from '../../protocol/incident.js';
import { TOPICS } from '../../protocol/topics.js';
import { CollectorProcess } from '../../test/collector/collector-process.js';
import { DetectorProcess } from '../../test/support/detector-process.js';
import { freePort } from '../../test/support/kafka-broker.js';

/*
 * Real engines on two GPUs, real faults, and what the detector says of them: hook -> collector -> embedded log -> detector
 * on this machine, one JSON line a scenario. --keep: where the log of all rows is to stay;
 * --seconds: no scenario begins later.
 *   node dist/bench/faults/faults.js [--device cpu] [--out FILE] [--keep FOLDER] [SCENARIO...]
 * It needs `make -C native all addon` and, in $PICKET_PYTHON or python3, PyTorch. Exit 1 where a verdict is wrong.
 */

interface Expected {
  /** Any of them; none: nothing may be found. */
  readonly kinds: readonly IncidentKind[];
  readonly ranks?: readonly number[];
  readonly cause?: string;
}

const NOTHING: Expected = { kinds: [] };
const SCENARIOS: Readonly<Record<string, Expected>> = {
  spin: NOTHING,
  train_healthy: NOTHING,
  train_compute: { kinds: ['straggler'], ranks: [1], cause: 'compute' },
  train_host: { kinds: ['straggler'], ranks: [0], cause: 'host' },
  train_loader: { kinds: ['straggler'], ranks: [1], cause: 'data' },
  train_pause: { kinds: ['comm_hang', 'transient_stall'], ranks: [1] },
  serve_healthy: NOTHING,
  serve_compute: { kinds: ['straggler'], ranks: [1], cause: 'compute' },
  serve_host: { kinds: ['straggler'], ranks: [0], cause: 'host' },
  serve_eager: { kinds: ['no_cuda_graph'] },
  serve_pause: { kinds: ['comm_hang', 'transient_stall'], ranks: [1] },
};
const STEPS = { train: [160, 80], serve: [600, 300], spin: [1, 0] } as const;
const PYTHON = process.env.PICKET_PYTHON ?? 'python3';
const SCENARIO_DEADLINE_MS = 120_000;
/** The detector judges the last steps of a job that sends no more after so long. */
const IDLE_SECONDS = 5;

const { values: options, positionals } = parseArgs({
  options: {
    device: { type: 'string', default: 'cuda' },
    out: { type: 'string' },
    keep: { type: 'string' },
    seconds: { type: 'string', default: '3600' },
  },
  allowPositionals: true,
});
// A GPU maps segments in memory only.
const dir = mkdtempSync(join(options.device === 'cuda' ? '/dev/shm' : tmpdir(), 'picket-faults-'));
const segments = join(dir, 'segments');
mkdirSync(segments);
const detector = new DetectorProcess({ kind: 'embedded', dir: '', fsync: 'never' }, [], { idle_seconds: IDLE_SECONDS });
const sink = { kind: 'embedded', dir: detector.logDir, fsync: 'never' } as const;
const collector = new CollectorProcess(dir, { segments_dir: segments, sink, partitions: 1, batch_ms: 200 });
process.on('exit', () => rmSync(dir, { recursive: true, force: true }));

/** Milliseconds between the beginning of a phase and the first open row of it in the log, by job and phase. */
const openAfterMs = new Map<string, number>();
/** Incident id -> epoch milliseconds at which the detector was first seen to tell it. */
const toldAt = new Map<string, number>();
let wrong = 0;

/** What an engine process said at its end. */
interface Engine {
  code: number | null;
  fault_ns?: string;
  failures?: number;
  first_failure?: string | null;
}

async function run(scenario: string): Promise<Engine[]> {
  const [steps, onset] = STEPS[scenario.split('_')[0] as keyof typeof STEPS];
  const config = join(dir, 'picket.toml');
  writeFileSync(config, `${probes()}[fence]\ndirectory = "${segments}"\n`);
  const env = { ...process.env, PYTHONPATH: resolve('native/hook'), PICKET_CONFIG: config, PICKET_JOB: scenario };
  const port = await freePort();
  const children = (scenario === 'spin' ? [0] : [0, 1]).map((rank) => {
    const args = ['bench/faults/engine.py', scenario, rank, port, steps, onset, options.device].map(String);
    return spawn(PYTHON, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  });
  const polling = setInterval(() => void notePresent().catch(() => {}), 100);
  const deadline = setTimeout(() => {
    for (const child of children) child.kill('SIGKILL');
  }, SCENARIO_DEADLINE_MS);
  const engines = await Promise.all(children.map(ended));
  clearTimeout(deadline);
  clearInterval(polling);
  return engines;
}

/** The probes stand in engine.py, beside the classes that they name. */
function probes(): string {
  return /PROBES = """\n([\s\S]*?)"""/.exec(readFileSync('bench/faults/engine.py', 'utf8'))?.[1] ?? '';
}

async function ended(child: ChildProcess): Promise<Engine> {
  const engine: Engine = { code: null };
  if (child.stdout)
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (line.startsWith('{')) Object.assign(engine, JSON.parse(line));
    });
  const [code] = await once(child, 'close');
  return { ...engine, code };
}

function noteOpen(message: Uint8Array): void {
  const batch = decodePhases(message);
  const { open, start_ns, phase } = batch.columns;
  for (let i = 0; i < batch.length; i++) {
    if (!open[i]) continue;
    const key = `${batch.meta.job} ${phase.values[phase.indices[i] as number]}`;
    const after = Date.now() - Number(start_ns.bigint(i) / 1_000_000n);
    openAfterMs.set(key, Math.min(openAfterMs.get(key) ?? Number.POSITIVE_INFINITY, after));
  }
}

async function notePresent(): Promise<Incident[]> {
  const present = await detector.incidents();
  for (const { id } of present) if (!toldAt.has(id)) toldAt.set(id, Date.now());
  return present;
}

function report(scenario: string, seconds: number, engines: readonly Engine[], incidents: readonly Incident[]): void {
  const expected = SCENARIOS[scenario] as Expected;
  const found = incidents.filter(({ subject, kind }) => subject.job === scenario && kind !== 'data_quality');
  const fault = engines.find(({ fault_ns }) => fault_ns)?.fault_ns;
  const faultMs = fault ? Number(BigInt(fault) / 1_000_000n) : undefined;
  const right = engines.every(({ code, failures }) => code === 0 && failures === 0) && isRight(expected, found);
  if (!right) wrong++;
  const line = {
    bench: 'faults',
    date: new Date().toISOString().slice(0, 10),
    command: `node dist/bench/faults/faults.js --device ${options.device}`,
    scenario,
    right,
    seconds: Math.round(seconds),
    steps: STEPS[scenario.split('_')[0] as keyof typeof STEPS],
    hook_failures: engines.map(({ failures, first_failure, code }) =>
      code === 0 ? (first_failure ?? failures) : `exit ${code}`,
    ),
    open_rows_after_ms: Object.fromEntries(
      [...openAfterMs].filter(([key]) => key.startsWith(`${scenario} `)).map(([key, ms]) => [key.split(' ')[1], ms]),
    ),
    incidents: found.map((incident) => ({
      ...summary(incident),
      ...(faultMs ? { told_ms_after_fault: (toldAt.get(incident.id) as number) - faultMs } : {}),
    })),
    expected,
  };
  console.log(JSON.stringify(line));
  if (options.out) appendFileSync(options.out, `${JSON.stringify(line)}\n`);
}

const summary = ({ kind, subject, cause, severity, status, onset_step, detected_step, cost, evidence }: Incident) => ({
  kind,
  ranks: subject.ranks,
  ...(subject.group ? { group: subject.group } : {}),
  cause,
  severity,
  status,
  onset_step,
  detected_step,
  cost,
  evidence,
});

/** Every incident is an expected one, and there is one where one is expected. */
function isRight({ kinds, ranks, cause }: Expected, found: readonly Incident[]): boolean {
  if (kinds.length === 0) return found.length === 0;
  const fits = ({ kind, subject, cause: why }: Incident): boolean =>
    kinds.includes(kind) && (!ranks || String(subject.ranks) === String(ranks)) && (!cause || cause === why);
  return found.length > 0 && found.every(fits);
}

if (!(await detector.start())) throw new Error(detector.output);
if (!(await collector.start())) throw new Error(collector.output.join('\n'));
const bus = await openBus(sink);
const consumer = await bus.consumer('faults', [TOPICS.phases]);
await consumer.start({
  assigned: async () => undefined,
  revoked: async () => {},
  records: async (_, records) => {
    for (const { value } of records) noteOpen(value);
  },
});
const told = new Map<string, { seconds: number; engines: Engine[] }>();
for (const scenario of positionals.length > 0 ? positionals : Object.keys(SCENARIOS)) {
  const started = performance.now();
  if (started > 1000 * Number(options.seconds)) break;
  const engines = await run(scenario);
  told.set(scenario, { seconds: (performance.now() - started) / 1000, engines });
  console.error(`${scenario}: ${Math.round(performance.now() - started)} ms`);
}
await new Promise((wake) => setTimeout(wake, 1000 * (IDLE_SECONDS + 3)));
const incidents = await notePresent();
for (const [scenario, { seconds, engines }] of told) report(scenario, seconds, engines, incidents);
await consumer.close();
await bus.close();
await collector.stop();
if (options.keep) cpSync(detector.logDir, options.keep, { recursive: true });
await detector.close();
process.exit(wrong > 0 ? 1 : 0);
