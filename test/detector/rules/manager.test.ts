import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { LastGoodFile } from '../../../detector/rules/last-good.js';
import { RuleManager, type RuleStatus } from '../../../detector/rules/manager.js';
import type { RuleText } from '../../../detector/rules/rule-file.js';
import type { RuleSource, RuleTexts } from '../../../detector/rules/sources/source.js';
import { PicketError } from '../../../protocol/errors.js';
import { fileOf } from './support.js';

const A: RuleText = { path: 'a.yml', text: fileOf('{id: a, kind: straggler}') };
const B: RuleText = { path: 'b.yml', text: fileOf('{id: b, kind: comm_slow}') };
const BAD: RuleText = { path: 'a.yml', text: 'apiVersion: picket/v1\ngroups: [' };

/** A source that gives what it is told to. */
class Scripted implements RuleSource {
  readonly description = 'a test';
  isRemote = false;
  reads = 0;
  next: () => RuleTexts | Promise<RuleTexts>;

  constructor(commit: string, ...texts: RuleText[]) {
    this.next = () => ({ commit, texts });
  }

  give(commit: string, ...texts: RuleText[]): void {
    this.next = () => ({ commit, texts });
  }

  async read(): Promise<RuleTexts> {
    this.reads++;
    return this.next();
  }
}

interface Made {
  manager: RuleManager;
  attempts: RuleStatus[];
  changes: () => number;
  logged: { message: string; parsed?: number }[];
}

function managerOf(t: TestContext, source: RuleSource, file: string, pollMs = 3_600_000): Made {
  const attempts: RuleStatus[] = [];
  const logged: Made['logged'] = [];
  let changes = 0;
  const log = (facts: object, message: string): void => {
    logged.push({ message, ...facts });
  };
  const manager = new RuleManager({
    ...{ source, lastGood: new LastGoodFile(file), pollMs, now: () => 1000, log: { info: log, warn: log } },
    onChange: () => changes++,
    onAttempt: (status) => attempts.push(status),
  });
  t.after(async () => {
    await manager.close();
    rmSync(dirname(file), { recursive: true, force: true });
  });
  return { manager, attempts, changes: () => changes, logged };
}

const lastGoodFile = (): string => join(mkdtempSync(join(tmpdir(), 'picket-rules-')), 'rules.json');

describe('the rules in force', () => {
  it('are replaced as a whole; nothing happens while nothing changes', async (t) => {
    const source = new Scripted('c1', A);
    const { manager, changes, logged } = managerOf(t, source, lastGoodFile());
    await manager.start();
    const first = manager.current;
    assert.deepEqual(await manager.reload(), { state: 'unchanged', commit: 'c1', rules: 1 });
    assert.equal(manager.current, first);
    source.give('c2', A, B);
    assert.deepEqual(await manager.reload(), { state: 'loaded', commit: 'c2', rules: 2 });
    source.give('c3', A, B);
    assert.deepEqual(
      await manager.reload(),
      { state: 'loaded', commit: 'c3', rules: 2 },
      'the served commit is the newest',
    );
    assert.deepEqual(
      logged.map(({ parsed }) => parsed),
      [1, 1, 0],
    );
    assert.equal(changes(), 3);
  });

  it('stay what they were when the newest are bad, and are not parsed again while these stay the same', async (t) => {
    const source = new Scripted('c1', A, B);
    const { manager, attempts, logged } = managerOf(t, source, lastGoodFile());
    await manager.start();
    source.give('c2', BAD, B);
    const outcome = await manager.reload();
    assert.ok(outcome.state === 'failed');
    assert.equal(outcome.failure.commit, 'c2');
    assert.match(outcome.failure.message, /^1 error in the rules, first at a\.yml:2:10: /);
    assert.deepEqual(
      manager.current.rules.map(({ id }) => id),
      ['a', 'b'],
    );
    assert.deepEqual([attempts.at(-1)?.commit, attempts.at(-1)?.failure?.commit], ['c1', 'c2']);
    await manager.reload();
    assert.equal(logged.filter(({ message }) => message.startsWith('1 error')).length, 1, 'told once');
    source.give('c3', A, B);
    await manager.reload();
    assert.equal(manager.status().failure, null);
  });

  it('survive a restart at a bad commit', async (t) => {
    const file = lastGoodFile();
    await managerOf(t, new Scripted('c1', A, B), file).manager.start();
    const { manager, attempts } = managerOf(t, new Scripted('c2', BAD, B), file);
    await manager.start();
    assert.deepEqual([manager.current.commit, manager.current.rules.length], ['c1', 2]);
    assert.equal(attempts.at(-1)?.failure?.commit, 'c2');
    assert.equal(readFileSync(file, 'utf8').includes('c2'), false, 'bad rules are never kept');
  });

  it('are none where the first are bad, or where there are none, and both are failures', async (t) => {
    for (const [texts, message] of [
      [[BAD], /^1 error/],
      [[], /^no rules in 0 files; check the path of the rules$/],
      [[{ path: 'x.yml', text: 'apiVersion: picket/v1\n' }], /^no rules in 1 files/],
    ] as const) {
      const { manager } = managerOf(t, new Scripted('c1', ...texts), lastGoodFile());
      await manager.start();
      assert.match(manager.status().failure?.message as string, message);
      assert.deepEqual([manager.status().rules, manager.status().commit], [0, null]);
    }
  });

  it('do not come from a file of last good rules that is damaged', async (t) => {
    const file = lastGoodFile();
    writeFileSync(file, '{"version":1,"commit":"c1","files":[{"path":1}]}');
    const { manager } = managerOf(t, new Scripted('c2', BAD), file);
    await manager.start();
    assert.equal(manager.status().rules, 0);
  });

  it('stay in force while their source cannot be read', async (t) => {
    const source = new Scripted('c1', A);
    const { manager } = managerOf(t, source, lastGoodFile());
    await manager.start();
    source.next = () => {
      throw new PicketError('bad_input', 'git fetch: could not resolve host');
    };
    const outcome = await manager.reload();
    assert.deepEqual(outcome, {
      state: 'failed',
      failure: { commit: null, message: 'git fetch: could not resolve host', problems: [] },
    });
    assert.equal(manager.current.rules.length, 1);
  });

  it('are looked at again for calls that come during a look: it may have read what is out of date', async (t) => {
    const source = new Scripted('c1', A);
    const { manager } = managerOf(t, source, lastGoodFile());
    await manager.start();
    let release = (): void => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    source.next = async () => {
      await held;
      return { commit: 'c2', texts: [A] };
    };
    const before = source.reads;
    const first = manager.reload();
    source.give('c3', A, B);
    const others = [manager.reload(), manager.reload()];
    release();
    assert.deepEqual([(await first).state, manager.current.commit], ['loaded', 'c2']);
    assert.deepEqual(await Promise.all(others), Array(2).fill({ state: 'loaded', commit: 'c3', rules: 2 }));
    assert.equal(source.reads, before + 2);
  });

  it('are polled for', async (t) => {
    const source = new Scripted('c1', A);
    const { manager } = managerOf(t, source, lastGoodFile(), 1);
    await manager.start();
    source.give('c2', A, B);
    const deadline = performance.now() + 10_000;
    while (manager.current.commit !== 'c2' && performance.now() < deadline)
      await new Promise((done) => setImmediate(done));
    assert.equal(manager.current.commit, 'c2');
  });
});
