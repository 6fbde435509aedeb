import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { after, describe, it } from 'node:test';
import type { Incident } from '../../protocol/incident.js';
import { make, skip } from '../native/build.js';
import { DetectorProcess } from '../support/detector-process.js';
import { freePort, KafkaBroker, needsKafka } from '../support/kafka-broker.js';
import { PYTHON, skipWithout } from '../support/python.js';
import { CollectorProcess } from './collector-process.js';
import { folder } from './support.js';

const needsTorch = skip || skipWithout('torch');
if (!needsTorch) make('all', 'addon');

const STEPS = 300;
const SLOW_FROM = 150;

type Where = 'forward' | 'loader';

/** Two PyTorch processes, rank 1 slow from a step on; resolves once both have ended well. */
async function train(segments: string, where: Where): Promise<void> {
  const port = String(await freePort());
  const program = resolve('test/collector/ddp_program.py');
  const env = {
    ...process.env,
    PYTHONPATH: resolve('native/hook'),
    PICKET_DIR: segments,
    PICKET_JOB: 'ddp',
    PICKET_RUN: '1',
  };
  const ranks = [0, 1].map((rank): ChildProcess => {
    const args = [program, String(rank), port, String(STEPS), String(SLOW_FROM), where];
    return spawn(PYTHON, args, { env, stdio: ['ignore', 'ignore', 'inherit'] });
  });
  after(() => ranks.map((rank) => rank.kill('SIGKILL')));
  const codes = await Promise.all(ranks.map(async (rank) => (await once(rank, 'exit'))[0]));
  assert.deepEqual(codes, [0, 0]);
}

/** Collector and detector on a bus, and the training between them. */
async function namesTheSlowRank(bus: object, where: Where, cause: string): Promise<void> {
  const dir = folder();
  const segments = join(dir, 'segments');
  mkdirSync(segments);
  const detector = new DetectorProcess(bus, []);
  const sink = { ...bus, ...('dir' in bus ? { dir: detector.logDir } : {}) };
  const collector = new CollectorProcess(dir, { segments_dir: segments, sink, partitions: 2 });
  after(() => Promise.all([detector.close(), collector.stop('SIGKILL')]));
  assert.ok(await detector.start(), detector.output);
  assert.ok(await collector.start(), collector.output.join('\n'));
  await train(segments, where);
  // Whatever else runs on the shared cores may truly slow a rank before the fault; from then on only rank 1 is to blame.
  const ofTheFault = (found: readonly Incident[]) =>
    found.filter(({ kind, detected_step }) => kind === 'straggler' && Number(detected_step) >= SLOW_FROM);
  const found = await detector.incidentsUntil((incidents) => ofTheFault(incidents).length > 0);
  assert.deepEqual(
    ofTheFault(found).map(({ subject, cause: why }) => [subject.job, subject.run, subject.ranks, why]),
    [['ddp', '1', [1], cause]],
  );
}

describe('two PyTorch processes with the hook, one of them slow', { skip: needsTorch }, () => {
  it('are told apart through the embedded log', () =>
    namesTheSlowRank({ kind: 'embedded', dir: '', fsync: 'never' }, 'forward', 'compute'));

  it('are told apart through Kafka', needsKafka, async () => {
    const broker = await KafkaBroker.start();
    after(() => broker.dispose());
    await namesTheSlowRank({ kind: 'kafka', brokers: broker.brokers }, 'loader', 'data');
  });
});
