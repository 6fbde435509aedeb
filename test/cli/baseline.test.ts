import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { loadBaseline } from '../../detector/baseline/baseline.js';
import { newJobMeta } from '../../protocol/job-meta.js';

const PROGRAM = resolve(import.meta.dirname, '../../cli/main.js');
const EXCERPT = resolve('fixtures/h200-tp2-excerpt');

describe('picket baseline', () => {
  const folder = mkdtempSync(join(tmpdir(), 'picket-test-'));
  const file = join(folder, 'baseline.json');
  const picket = (...args: string[]) =>
    spawnSync(process.execPath, [PROGRAM, 'baseline', ...args], { encoding: 'utf8' });
  let trained: ReturnType<typeof picket>;

  before(() => {
    trained = picket('train', EXCERPT, '--out', file, '--backend', 'wasm');
  });
  after(() => rmSync(folder, { recursive: true }));

  it('learns from a healthy run, and from another until its incident', () => {
    assert.equal(trained.status, 0, trained.stderr);
    assert.match(trained.stdout, /^healthy \(run 1\): 181 steps, 1 of them left out$/m);
    const leftOut = Number(/^host_straggler \(run 1\): 181 steps, (\d+) of them left out$/m.exec(trained.stdout)?.[1]);
    assert.ok(leftOut >= 81 && leftOut < 100, `${leftOut}`);
    const population = loadBaseline(readFileSync(file, 'utf8')).population(newJobMeta('any'));
    assert.equal(population?.expectsGraph(32), true);
  });

  it('shows what a baseline expects', () => {
    const { status, stdout } = picket('show', file);
    assert.equal(status, 0);
    assert.match(stdout, /^Population: all unknown \(2 runs\)$/m);
    assert.match(
      stdout,
      /^ {2}graph-64\/decode +compute +\d+ +2\.0\d\d +-\d\.\d % to \+\d\.\d % +(\d+ %|-) +\d\.\d %$/m,
    );
    assert.match(stdout, /^ {2}all_reduce +2 +1 +graph +524288 +\d+ +12\.\d +13\.\d +1[34]\.\d +3\d\.\d +\d\.\d %$/m);
    assert.match(stdout, /^ +64 +\d+ +\d+ +64 +2\.\d+ +-$/m);
  });

  it('refuses what it cannot use, with exit code 2', () => {
    const line = { job: 'j', rank: 0, step: 1, phase: 'forward', start_ns: '1796034298244820935', dur_ns: 1000 };
    const short = join(folder, 'short.jsonl');
    writeFileSync(short, `${JSON.stringify(line)}\n`);
    const other = join(folder, 'other.json');
    writeFileSync(other, JSON.stringify({ format: 'picket-baseline', version: 99 }));
    for (const [args, message] of [
      [['train', short, '--out', join(folder, 'out.json'), '--backend', 'cpu'], /too few healthy steps/],
      [['train', EXCERPT], /--out/],
      [['train', EXCERPT, '--out', file, '--seed', 'x'], /not an integer/],
      [['show', other], /version 99 is not 1; train it again/],
      [['show', join(folder, 'none.json')], /cannot be read \(ENOENT\)/],
    ] as const) {
      const { status, stderr } = picket(...args);
      assert.equal(status, 2, stderr);
      assert.match(stderr, message);
    }
  });
});
