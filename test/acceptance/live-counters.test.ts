import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, it } from 'node:test';
import { openBus } from '../../bus/open.js';
import { analyze } from '../../cli/analyze.js';
import { type Publishable, publish } from '../../cli/publish.js';
import { PartitionPipeline } from '../../detector/pipeline/partition-pipeline.js';
import type { Incident } from '../../protocol/incident.js';
import { formatPhaseLine, formatSampleLine } from '../../protocol/jsonl.js';
import { TOPICS } from '../../protocol/topics.js';
import { simulateStream } from '../../simulator/simulate.js';
import { DetectorProcess } from '../support/detector-process.js';

it('a detector that is killed goes on with what counters had said, and names the NIC', async () => {
  const detector = new DetectorProcess({ kind: 'embedded', dir: '', fsync: 'never' }, [], { checkpoint_seconds: 0.05 });
  after(() => detector.close());
  const bus = await openBus({ kind: 'embedded', dir: detector.logDir, fsync: 'never' });
  after(() => bus.close());
  await bus.createTopics([TOPICS.phases, TOPICS.samples].map((topic) => ({ topic, partitions: 3 })));
  const producer = await bus.producer();
  const stream = [...simulateStream({ scenario: 'rnic-flap', ranks: 8, steps: 200, seed: 1, gpusPerHost: 2 })];
  const sent: Publishable[] = stream.map((message) => (message.type === 'phases' ? message.batch : message.samples));
  const half = sent.length >> 1;

  for (const part of [sent.slice(0, half), sent.slice(half)]) {
    // What is sampled comes first, so that steps are judged with it in whatever order topics are read.
    const [samples, phases] = [part.filter(Array.isArray), part.filter((each) => !Array.isArray(each))];
    await detector.kill();
    await detector.start();
    await publish(producer, samples, undefined);
    await detector.metricUntil('picket_messages_total', (messages) => messages >= samples.length);
    await publish(producer, phases, undefined);
    await detector.metricUntil('picket_messages_total', (messages) => messages >= part.length);
  }
  const found = await detector.incidentsUntil((incidents) => incidents.length > 0);
  assert.deepEqual(
    found.map(({ kind, subject }) => [kind, subject.hosts, subject.nic]),
    [['rnic_flap', ['node-0003'], 'mlx5_0']],
  );
});

it('a file of rows and samples is judged as the stream that it was written from', async () => {
  const stream = [...simulateStream({ scenario: 'rnic-flap', ranks: 8, steps: 200, seed: 1, gpusPerHost: 2 })];
  const pipeline = new PartitionPipeline();
  const lines: string[] = [];
  const found = new Map<string, Incident>();
  for (const [i, message] of stream.entries())
    if (message.type === 'samples') {
      pipeline.addSamples(message.samples);
      lines.push(...message.samples.map(formatSampleLine));
    } else {
      const { batch } = message;
      for (let row = 0; row < batch.length; row++) lines.push(formatPhaseLine(batch, row));
      for (const { after: each } of pipeline.add(batch, { place: '', offset: BigInt(i), again: false }))
        found.set(each.id, each);
    }
  for (const { after: each } of pipeline.flush()) found.set(each.id, each);
  for (const each of pipeline.openIncidents()) found.set(each.id, each);
  const file = join(mkdtempSync(join(tmpdir(), 'picket-test-')), 'flap.jsonl');
  after(() => rmSync(dirname(file), { recursive: true }));
  writeFileSync(file, lines.join('\n'));
  const { incidents } = await analyze([file], {});
  assert.deepEqual(
    incidents.map(({ kind, subject }) => [kind, subject.nic]),
    [['rnic_flap', 'mlx5_0']],
  );
  assert.deepEqual(incidents, [...found.values()]);
});
