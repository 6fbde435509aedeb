import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { temporaryFolder } from '../store/support.js';
import { startHook } from './support.js';

const PROGRAM = fileURLToPath(new URL('./kill-program.js', import.meta.url));

async function run(...given: string[]): Promise<{ code: number | null; signal: string | null }> {
  const child = spawn(process.execPath, [PROGRAM, ...given], { stdio: ['ignore', 'inherit', 'inherit'] });
  const [code, signal] = await once(child, 'exit');
  return { code, signal };
}

const points = [
  'store.before_commit:1',
  'store.after_commit:1',
  'notify.before_send:1',
  'notify.before_send:2',
  'notify.after_send:1',
  'notify.after_ack:1',
  'notify.after_ack:2',
];
for (const point of points)
  test(`killed at ${point} and started again, every notification arrives under its one id`, {
    timeout: 60_000,
  }, async (t) => {
    const path = join(temporaryFolder(t), 'picket.db');
    const hook = await startHook(t, () => ({ status: 200 }));
    assert.deepEqual(await run(path, hook.url, point), { code: null, signal: 'SIGKILL' });
    assert.deepEqual(await run(path, hook.url), { code: 0, signal: null });

    const bodies = new Map<string, Set<string>>();
    for (const { headers, body } of hook.requests) {
      const id = headers['webhook-id'] as string;
      bodies.set(id, (bodies.get(id) ?? new Set()).add(body));
    }
    assert.equal(bodies.size, 2);
    for (const each of bodies.values()) assert.equal(each.size, 1, 'one id, two bodies');
    // Nothing was sent before a kill that came before the first send, and nothing is sent again after the last acknowledgement.
    if (/^store|before_send:1|after_ack:2/.test(point)) assert.equal(hook.requests.length, 2);
    const before = hook.requests.length;
    assert.deepEqual(await run(path, hook.url), { code: 0, signal: null });
    assert.equal(hook.requests.length, before, 'delivered once more after all was acknowledged');
  });
