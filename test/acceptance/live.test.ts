import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';
import { after, it, type TestContext } from 'node:test';
import { openBus } from '../../bus/open.js';
import { analyze } from '../../cli/analyze.js';
import { publish } from '../../cli/publish.js';
import { type ImportOptions, importPaths } from '../../importers/index.js';
import { TOPICS } from '../../protocol/topics.js';
import { DetectorProcess } from '../support/detector-process.js';
import { sharedData } from '../support/shared-data.js';

/** A detector whose embedded log holds a recording. */
async function fed(t: TestContext, path: string, options: ImportOptions, extra: object): Promise<DetectorProcess> {
  const detector = new DetectorProcess({ kind: 'embedded', dir: '', fsync: 'never' }, [], extra);
  t.after(() => detector.close());
  const bus = await openBus({ kind: 'embedded', dir: detector.logDir, fsync: 'never' });
  after(() => bus.close());
  await bus.createTopics([{ topic: TOPICS.phases, partitions: 1 }]);
  await publish(await bus.producer(), importPaths([path], options), undefined);
  return detector;
}

it('shows what a stream said to its end, though no message follows', async (t) => {
  const excerpt = resolve('fixtures/h200-tp2-excerpt');
  const { incidents } = await analyze([excerpt], {});
  const detector = await fed(t, excerpt, {}, { checkpoint_seconds: 0.2 });
  await detector.start();
  const last = incidents[0]?.last_step as number;
  const live = await detector.incidentsUntil((found) => found.some((each) => each.last_step === last));
  assert.deepEqual(
    live.map(({ id, cost }) => [id, cost]),
    incidents.map(({ id, cost }) => [id, cost]),
  );
});

const tp2 = sharedData('h200-tp2');
it('sees with a baseline what was slow from the first step on', { skip: tp2.skip }, async (t) => {
  const detector = await fed(t, tp2.path, { scenario: 'nvlink_slow_path' }, {});
  const baseline = join(detector.folder, 'baseline.json');
  const healthy = ['healthy', 'healthy_2'].flatMap((name) => ['--scenario', name]);
  execFileSync(process.execPath, ['bin/picket.js', 'baseline', 'train', tp2.path, ...healthy, '--out', baseline]);
  detector.configure({ baseline });
  await detector.start();
  const found = await detector.incidentsUntil((incidents) => incidents.length > 0);
  assert.deepEqual(
    found.map(({ kind, subject }) => [kind, subject.link]),
    [['nvlink_stall', '0-1']],
  );
});

it('says which port is taken, and ends', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1');
  t.after(() => taken.close());
  await new Promise((listening) => taken.once('listening', listening));
  const { port } = taken.address() as AddressInfo;
  const detector = new DetectorProcess({ kind: 'embedded', dir: '', fsync: 'never' }, [], {
    http: { host: '127.0.0.1', port },
  });
  t.after(() => detector.close());
  assert.equal(await detector.start(), false);
  assert.match(detector.output, new RegExp(`field "http.port": 127.0.0.1:${port} is in use; stop what listens there`));
});
