import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, describe, it } from 'node:test';
import { make, skip } from '../native/build.js';
import { PYTHON, skipWithout } from '../support/python.js';

/** One test as conftest.py writes it. */
interface Report {
  readonly name: string;
  readonly outcome: 'passed' | 'failed' | 'skipped';
  /** Why it was skipped, or how it failed. */
  readonly text: string;
}

const LEFT_OUT = ['no GPU', 'this PyTorch'];

/** Runs pytest on this folder; its output is shown where it ends badly. */
async function pytest(): Promise<Report[]> {
  const dir = mkdtempSync(join(tmpdir(), 'picket-pytest-'));
  after(() => rmSync(dir, { recursive: true }));
  const file = join(dir, 'reports.jsonl');
  const args = ['-m', 'pytest', '-q', '-p', 'no:cacheprovider', resolve('test/hook')];
  const child = spawn(PYTHON, args, { env: { ...process.env, PICKET_TEST_REPORTS: file }, stdio: 'pipe' });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (output += data));
  const [code] = await once(child, 'close');
  // 1: some tests have failed, which the reports tell.
  assert.ok(code === 0 || code === 1, output);
  const lines = readFileSync(file, 'utf8').trim().split('\n');
  return lines.map((line) => JSON.parse(line) as Report);
}

describe('the Python hook', { skip: skip || skipWithout('pytest') }, () => {
  it('does what its tests in Python ask', async (context) => {
    make('all');
    for (const { name, outcome, text } of await pytest())
      await context.test(name, (test) => {
        if (outcome === 'failed') assert.fail(text);
        if (outcome === 'passed') return;
        const allowed = process.env.CI !== 'true' || LEFT_OUT.some((reason) => text.includes(reason));
        assert.ok(allowed, `skipped in CI: ${text}`);
        test.skip(text);
      });
  });
});
