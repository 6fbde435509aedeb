import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';

const PROGRAM = `
import { describe, it, test } from 'node:test';
test('passes', () => {});
test('fails', () => { throw new Error('on purpose'); });
test('is skipped', { skip: 'needs a GPU' }, () => {});
describe('a suite', () => { it('passes too', () => {}); it('is skipped too', { skip: true }, () => {}); });
describe('a skipped suite', { skip: 'needs Kafka' }, () => { it('is not told of', () => {}); });
`;

test('tests are counted one by one, suites only where skipped, and a skip is kept with its reason', (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'picket-totals-'));
  t.after(() => rmSync(dir, { recursive: true }));
  writeFileSync(join(dir, 'one.test.mjs'), PROGRAM);
  writeFileSync(join(dir, 'two.test.mjs'), 'process.exit(3);');
  const reporter = `--test-reporter=${resolve('scripts/totals-reporter.mjs')}`;
  // The runner marks its children by a variable, in which no runner works again.
  const env = { ...process.env, NODE_TEST_CONTEXT: undefined };
  const run = spawnSync(process.execPath, ['--test', reporter, dir], { env, encoding: 'utf8', cwd: dir });
  const { skipped, ...counts } = JSON.parse(run.stdout);
  assert.deepEqual(counts, { passed: 2, failed: 2 }, 'a file that dies is a failure');
  assert.deepEqual(skipped.sort(), [
    'a skipped suite (needs Kafka)',
    'is skipped (needs a GPU)',
    'is skipped too (no reason given)',
  ]);
  assert.equal(run.status, 1);
});
