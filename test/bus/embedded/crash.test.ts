import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Bus } from '../../../bus/bus.js';
import { openBus } from '../../../bus/open.js';
import { Recorder, textOf, within } from '../recorder.js';

const CHILD = fileURLToPath(new URL('./child.js', import.meta.url));
const KILLS = 25;

let dir: string;
let bus: Bus;
before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'picket-crash-'));
  bus = await openBus({ kind: 'embedded', dir });
});
after(async () => {
  await bus.close();
  rmSync(dir, { recursive: true });
});

function start(...args: string[]): { child: ChildProcess; lines: Interface } {
  const child = spawn(process.execPath, [CHILD, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  if (!child.stdout) throw new Error('no output');
  return { child, lines: createInterface(child.stdout) };
}

async function kill(child: ChildProcess): Promise<void> {
  const exit = once(child, 'exit');
  child.kill('SIGKILL');
  await exit;
}

/** Lets a writer send until `acks` messages are acknowledged, kills it in the midst of the next and says what it had. */
async function killWriter(topic: string, name: string, acks: number): Promise<number> {
  const { child, lines } = start('write', dir, topic, name, String(400_000));
  let acknowledged = -1;
  const closed = once(lines, 'close');
  const enough = new Promise<void>((resolve) => {
    lines.on('line', (line) => {
      acknowledged = Number(line);
      if (acknowledged >= acks) resolve();
    });
  });
  await within(enough, `${acks} acknowledgements`);
  await kill(child);
  await closed;
  return acknowledged;
}

test('whatever moment a writer is killed at, each acknowledged message is there and none is torn', async () => {
  await bus.createTopics([{ topic: 'phases', partitions: 1 }]);
  const tail = new Recorder();
  const tailing = await bus.consumer('tail', ['phases']);
  await tailing.start(tail);
  const last = new Map<string, number>();
  for (let i = 0; i < KILLS; i += 2) {
    // Two processes at once: they take turns in one partition, and one goes on over what the other left.
    const [a, b] = [`w${i}`, `w${i + 1}`];
    const [ackedA, ackedB] = await Promise.all([killWriter('phases', a, i % 5), killWriter('phases', b, (i * 3) % 7)]);
    last.set(a, ackedA).set(b, ackedB);
  }
  const producer = await bus.producer();
  await producer.send('phases', [{ key: 'end', value: Buffer.from('end') }]);
  const whole = new Recorder();
  const reading = await bus.consumer('whole', ['phases']);
  await reading.start(whole);
  for (const recorder of [whole, tail]) await recorder.until((r) => r.texts.at(-1) === 'end', 'the last message');
  assert.deepEqual(
    whole.offsets,
    whole.offsets.map((_, i) => BigInt(i)),
  );
  assert.deepEqual(tail.offsets, whole.offsets, 'a reader beside the writers sees the same');
  for (const [name, acknowledged] of last) {
    const own = whole.records_.filter(({ record }) => record.key === name).map(({ record }) => textOf(record));
    assert.deepEqual(
      own.map((text) => text.split('\n')[0]),
      own.map((_, i) => `${name}:${i}`),
    );
    assert.ok(own.length > acknowledged, `${name}: ${acknowledged} acknowledged, ${own.length} there`);
    for (const [i, text] of own.entries()) assert.equal(text.length, `${name}:${i}\n`.length + 400_000);
  }
  assert.equal(tailing.health().offsetResets, 0);
});

test('the partitions of a consumer that was killed go to the others of its group', async () => {
  await bus.createTopics([{ topic: 'samples', partitions: 3 }]);
  const { child, lines } = start('read', dir, 'samples', 'detectors');
  const assigned: string[] = [];
  await within(
    new Promise<void>((resolve) => {
      lines.on('line', (line) => {
        assigned.push(line);
        if (assigned.length === 3) resolve();
      });
    }),
    'all partitions at the first consumer',
  );
  const recorder = new Recorder();
  const consumer = await bus.consumer('detectors', ['samples']);
  await consumer.start(recorder);
  await recorder.until((r) => r.owned.size >= 1, 'a share');
  await kill(child);
  await recorder.until((r) => r.owned.size === 3, 'all partitions');
  await consumer.close();
});
