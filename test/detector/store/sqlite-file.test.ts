import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import Database from 'better-sqlite3';
import { openSqliteStore } from '../../../detector/store/sqlite-store.js';
import { type ErrorCode, PicketError } from '../../../protocol/errors.js';
import { temporaryFolder, temporaryStore } from './support.js';

const failsWith = (code: ErrorCode, text: RegExp) => (error: unknown) =>
  error instanceof PicketError && error.code === code && text.test(error.message);
const open = (path: string) => openSqliteStore({ path, now: () => 0, busyTimeoutMs: 20 });

test('a second detector on the file is refused, by whatever path it comes', (t) => {
  const { path } = temporaryStore(t);
  const link = join(temporaryFolder(t), 'link.db');
  symlinkSync(path, link);
  assert.throws(() => open(path), failsWith('conflict', /another detector has this store open/));
  assert.throws(() => open(link), failsWith('conflict', /link\.db/));
});

test('closing hands the file over', (t) => {
  const { path, store } = temporaryStore(t);
  store.close();
  assert.doesNotThrow(() => open(path).close());
});

test('another process may read while the detector has it', (t) => {
  const { path } = temporaryStore(t);
  const reader = new Database(path, { readonly: true });
  t.after(() => reader.close());
  assert.equal(reader.prepare('SELECT count(*) FROM incidents').pluck().get(), 0);
});

test('the lock of a killed owner is gone with it', { timeout: 30_000 }, async (t) => {
  const path = join(temporaryFolder(t), 'picket.db');
  const program = fileURLToPath(new URL('./lock-holder.js', import.meta.url));
  const owner = spawn(process.execPath, [program, path], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => owner.kill('SIGKILL'));
  await once(owner.stdout, 'data');
  assert.throws(() => open(path), failsWith('conflict', /stop it first/));
  owner.kill('SIGKILL');
  await once(owner, 'exit');
  assert.doesNotThrow(() => open(path).close());
});

test('a file that is no database is named, with what to do', (t) => {
  const path = join(temporaryFolder(t), 'notes.txt');
  writeFileSync(path, 'not a database at all '.repeat(100));
  assert.throws(() => open(path), failsWith('store_unavailable', /notes\.txt.*move the file away/));
  writeFileSync(path, '');
  assert.doesNotThrow(() => open(path).close(), 'the lock was left behind');
});

test('a folder that cannot be is named, with what to do', (t) => {
  const file = join(temporaryFolder(t), 'file');
  writeFileSync(file, '');
  assert.throws(() => open(join(file, 'picket.db')), failsWith('store_unavailable', /picket\.db.*may write there/));
  if (process.platform === 'linux')
    assert.throws(() => open('/proc/x/picket.db'), failsWith('store_unavailable', /ENOENT.*may write there/));
});
