import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { openBus } from '../../../bus/open.js';
import { Recorder } from '../recorder.js';

function folder(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), 'picket-bus-'));
  t.after(() => rmSync(dir, { recursive: true }));
  return dir;
}

test('a retention that holds no segment is refused', async (t) => {
  const options = { kind: 'embedded', dir: folder(t), segmentBytes: 100, retentionBytes: 50 } as const;
  await assert.rejects(openBus(options), { code: 'bad_config', message: /field "retentionBytes".*give at least/ });
});

test('a folder that cannot be made is named', async (t) => {
  const file = join(folder(t), 'file');
  writeFileSync(file, '');
  await assert.rejects(openBus({ kind: 'embedded', dir: file }), {
    code: 'bus_unavailable',
    message: /file: .*folder.*; give one on a local disk/,
  });
});

test('names that would leave the folder, or that Kafka would refuse, are refused', async (t) => {
  const bus = await openBus({ kind: 'embedded', dir: folder(t) });
  for (const topic of ['..', 'a/b', '', 'ü', 'x'.repeat(201)])
    await assert.rejects(bus.createTopics([{ topic, partitions: 1 }]), {
      code: 'bad_config',
      message: /no name of a topic/,
    });
  await bus.createTopics([{ topic: 't', partitions: 1 }]);
  await assert.rejects(bus.consumer('../../etc', ['t']), { code: 'bad_config', message: /no name of a group/ });
});

test('a committed offset is a small file that is replaced as a whole; one that holds no offset is named', async (t) => {
  const dir = folder(t);
  const bus = await openBus({ kind: 'embedded', dir });
  t.after(() => bus.close());
  await bus.createTopics([{ topic: 't', partitions: 1 }]);
  const consumer = await bus.consumer('g', ['t']);
  await consumer.start(new Recorder());
  await Promise.all([1n, 2n, 2n ** 60n].map((offset) => consumer.commit({ topic: 't', partition: 0 }, offset)));
  await consumer.commit({ topic: 't', partition: 7 }, 5n);
  await consumer.close();
  const file = join(dir, 'groups/g/t-0.offset');
  assert.equal(readFileSync(file, 'utf8'), `${2n ** 60n}\n`);
  writeFileSync(file, '12\0');
  const again = await bus.consumer('g', ['t']);
  await assert.rejects(again.start(new Recorder()), {
    code: 'bus_unavailable',
    message: /t-0\.offset: not a committed offset; remove/,
  });
  assert.equal(again.health().failed?.message.includes('t-0.offset'), true);
});

test('a topic described by another file than ours is named', async (t) => {
  const dir = folder(t);
  const bus = await openBus({ kind: 'embedded', dir });
  mkdirSync(join(dir, 'topics/t'), { recursive: true });
  writeFileSync(join(dir, 'topics/t/topic.json'), '{}');
  await assert.rejects(bus.consumer('g', ['t']), {
    code: 'bus_unavailable',
    message: /topic\.json: not the description/,
  });
});

test('a consumer is started once', async (t) => {
  const bus = await openBus({ kind: 'embedded', dir: folder(t) });
  t.after(() => bus.close());
  await bus.createTopics([{ topic: 't', partitions: 1 }]);
  const consumer = await bus.consumer('g', ['t']);
  await consumer.start(new Recorder());
  await assert.rejects(consumer.start(new Recorder()), { code: 'conflict' });
});
