/** A process for tests to kill: `child.js write DIR TOPIC NAME BYTES` or `child.js read DIR TOPIC GROUP`. */
import { writeSync } from 'node:fs';
import { openBus } from '../../../bus/open.js';

const [mode, dir = '', topic = '', name = '', bytes = '0'] = process.argv.slice(2);
const say = (line: string): void => void writeSync(1, `${line}\n`);
const bus = await openBus({ kind: 'embedded', dir, segmentBytes: 1_000_000, retentionBytes: 1_000_000_000 });

if (mode === 'write') {
  // Sends without end and says which message is acknowledged: NAME:0, NAME:1, ... in the value's first line.
  const producer = await bus.producer();
  for (let i = 0; ; i++) {
    const value = Buffer.concat([Buffer.from(`${name}:${i}\n`), Buffer.alloc(Number(bytes), i)]);
    await producer.send(topic, [{ key: name, value }]);
    say(String(i));
  }
}

const consumer = await bus.consumer(name, [topic]);
await consumer.start({
  assigned: async ({ partition }) => void say(`assigned ${partition}`),
  revoked: async ({ partition }) => say(`revoked ${partition}`),
  records: async () => {},
});
