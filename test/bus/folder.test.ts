import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeFolder } from '../../bus/folder.js';

test('a folder is made with those above it, and may be there already', (t) => {
  const root = mkdtempSync(join(tmpdir(), 'picket-folder-'));
  t.after(() => rmSync(root, { recursive: true }));
  const path = join(root, 'a', 'b', 'c');
  for (let i = 0; i < 2; i++) {
    makeFolder(path);
    assert.ok(statSync(path).isDirectory());
  }
  writeFileSync(join(root, 'file'), '');
  symlinkSync(join(root, 'nowhere'), join(root, 'link'));
  assert.throws(() => makeFolder(join(root, 'file')), { code: 'ENOTDIR' });
  assert.throws(() => makeFolder(join(root, 'file', 'x')), { code: 'ENOTDIR' });
  assert.throws(() => makeFolder(join(root, 'link')), { code: 'ENOENT' });
});

test('where the system says that nothing is there it ends all the same', {
  skip: process.platform !== 'linux' && 'needs /proc',
}, () => {
  assert.throws(() => makeFolder('/proc/picket/log/topics'), { code: 'ENOENT' });
});
