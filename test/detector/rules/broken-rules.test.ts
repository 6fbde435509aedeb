import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { DetectorProcess } from '../../support/detector-process.js';
import { GitRepository } from './sources/git-repository.js';
import { GitSyncTree } from './sources/git-sync-tree.js';
import { fileOf } from './support.js';

const PROGRAM = resolve(import.meta.dirname, '../../../cli/main.js');
/** In them a straggler, from the beginning to the end of the trace. */
const TRACE = 'fixtures/h200-tp2-excerpt';

const A = fileOf('{id: transfers, kind: comm_slow}');
const B = fileOf('{id: slow-rank, kind: straggler}');

interface Status {
  commit: string | null;
  rules: number;
  last_attempt: {
    ok: boolean;
    failure: { commit: string; message: string; problems: { file: string; line: number }[] } | null;
  };
}

class RuledDetector extends DetectorProcess {
  async status(): Promise<Status> {
    return (await (await fetch(`${this.url}/v1/status/rules`)).json()) as Status;
  }

  /** As git-sync's webhook does; gives the status code. */
  async reload(commit: string): Promise<number> {
    const headers = { 'gitsync-hash': commit };
    const response = await fetch(`${this.url}/-/reload`, {
      method: 'POST',
      headers,
      signal: AbortSignal.timeout(1000),
    });
    await response.body?.cancel();
    return response.status;
  }

  async ready(): Promise<number> {
    return (await fetch(`${this.url}/readyz`)).status;
  }

  async until(what: string, holds: (status: Status) => boolean): Promise<Status> {
    const deadline = performance.now() + 20_000;
    for (;;) {
      const status = await this.status();
      if (holds(status)) return status;
      assert.ok(performance.now() < deadline, `${what}: ${JSON.stringify(status)}\n${this.output}`);
      await new Promise((done) => setTimeout(done, 20));
    }
  }

  async replay(): Promise<void> {
    const [exit] = await once(
      spawn(process.execPath, [PROGRAM, 'replay', TRACE, '--log', this.logDir, '--speed', 'max'], { stdio: 'inherit' }),
      'exit',
    );
    assert.equal(exit, 0);
  }
}

function made(t: TestContext, rules: (repository: GitRepository, sync: GitSyncTree) => object) {
  const repository = new GitRepository();
  t.after(() => repository.dispose());
  const sync = new GitSyncTree(repository);
  const detector = new RuledDetector({ kind: 'embedded', dir: '', fsync: 'never' }, [], {
    rules: rules(repository, sync),
  });
  t.after(() => detector.close());
  return { repository, sync, detector };
}

describe('a detector whose rules git-sync publishes', () => {
  it('lives through bad commits, deleted files and duplicate ids (VictoriaMetrics#5478 and others)', async (t) => {
    // Polling is off, in effect: what is seen is seen because of the webhook.
    const { repository, sync, detector } = made(t, (_, { link }) => ({
      source: 'git_sync',
      link,
      path: 'rules',
      poll_seconds: 3600,
    }));
    const c1 = repository.commit({ 'rules/a.yml': A, 'rules/b.yml': B });
    sync.publish(c1);
    assert.ok(await detector.start(), detector.output);
    assert.deepEqual([(await detector.status()).commit, await detector.ready()], [c1, 200]);
    await detector.replay();
    const straggler = (status: string) => (found: Awaited<ReturnType<RuledDetector['incidents']>>) =>
      found.some((each) => each.kind === 'straggler' && each.status === status);
    const [open] = (await detector.incidentsUntil(straggler('open'))).filter(({ kind }) => kind === 'straggler');
    assert.deepEqual(open?.rule, { id: 'slow-rank', commit: c1 });

    const c2 = repository.commit({ 'rules/a.yml': A.slice(0, -12) });
    sync.publish(c2);
    assert.equal(await detector.reload(c2), 422);
    assert.equal(await detector.reload(c2), 422, 'the webhook comes again');
    const status = await detector.status();
    assert.deepEqual([status.commit, status.rules, status.last_attempt.failure?.commit], [c1, 2, c2]);
    assert.deepEqual(
      status.last_attempt.failure?.problems.map(({ file, line }) => `${file}:${line}`),
      ['a.yml:5'],
    );
    const told = (await detector.incidents()).filter(({ subject }) => subject.source === 'rules');
    assert.deepEqual(
      told.map(({ kind, severity, status: state }) => [kind, severity, state]),
      [['data_quality', 'info', 'open']],
    );
    assert.match(
      told[0]?.summary as string,
      new RegExp(`^the rules of commit ${c2} cannot be used, those of ${c1} stay in force`),
    );

    await detector.kill();
    assert.ok(await detector.start(), detector.output);
    const restarted = await detector.status();
    assert.deepEqual([restarted.commit, restarted.rules, restarted.last_attempt.failure?.commit], [c1, 2, c2]);
    assert.equal(await detector.ready(), 200);
    assert.ok(straggler('open')(await detector.incidents()));

    const still = repository.commit({ 'rules/b.yml': null });
    sync.publish(still);
    assert.equal(await detector.reload(still), 422, 'a is still cut off: all or nothing');
    assert.deepEqual([(await detector.status()).commit, straggler('open')(await detector.incidents())], [c1, true]);

    const c3 = repository.commit({ 'rules/a.yml': A });
    sync.publish(c3);
    assert.equal(await detector.reload(c3), 200);
    assert.deepEqual([(await detector.status()).commit, (await detector.status()).rules], [c3, 1]);
    const [ended] = (await detector.incidentsUntil(straggler('resolved'))).filter(({ kind }) => kind === 'straggler');
    assert.equal(
      ended?.timeline.at(-1)?.note,
      `rule slow-rank applies no longer: no rule reports straggler here (rules of ${c3})`,
    );
    assert.ok(
      (await detector.incidents()).every(
        ({ subject, status: state }) => subject.source !== 'rules' || state === 'resolved',
      ),
    );

    const c4 = repository.commit({ 'rules/b.yml': B });
    sync.publish(c4);
    assert.equal(await detector.reload(c4), 200);
    assert.equal(await detector.reload(c4), 200);
    assert.deepEqual([(await detector.status()).commit, (await detector.status()).rules], [c4, 2]);

    const c5 = repository.commit({ 'rules/c.yml': B.replace('straggler', 'comm_hang') });
    sync.publish(c5);
    assert.equal(await detector.reload(c5), 422);
    const refused = await detector.status();
    assert.deepEqual([refused.commit, refused.rules], [c4, 2]);
    assert.match(
      refused.last_attempt.failure?.message as string,
      /c\.yml:5:9: the id is taken by the rule at b\.yml:5/,
    );
  });

  it('serves the commit of every swap by polling alone', async (t) => {
    const { repository, sync, detector } = made(t, (_, { link }) => ({
      source: 'git_sync',
      link,
      path: 'rules',
      poll_seconds: 0.05,
    }));
    sync.publish(repository.commit({ 'rules/a.yml': A }));
    assert.ok(await detector.start(), detector.output);
    for (let i = 0; i < 5; i++) {
      const commit = repository.commit({ 'rules/a.yml': `# ${i}\n${A}` });
      sync.publish(commit);
      await detector.until('the swap is served', (status) => status.commit === commit);
    }
  });
});

describe('a detector that polls a repository', () => {
  it('follows pushes, rewritten and deleted branches, and is told to by SIGHUP', async (t) => {
    const { repository, detector } = made(t, ({ url }) => ({
      source: 'repository',
      url,
      branch: 'live',
      path: 'rules',
      poll_seconds: 3600,
    }));
    const c1 = repository.commit({ 'rules/a.yml': A });
    repository.git('checkout', '--quiet', '-b', 'live');
    assert.ok(await detector.start(), detector.output);
    assert.equal((await detector.status()).commit, c1);
    const served = async (commit: string): Promise<void> => {
      detector.signal('SIGHUP');
      await detector.until('the push is served', (status) => status.commit === commit && status.last_attempt.ok);
    };
    await served(repository.commit({ 'rules/b.yml': B }));
    await served(repository.commit({ 'rules/b.yml': `# rewritten\n${B}` }, '--amend'));
    const { commit } = await detector.status();
    repository.git('checkout', '--quiet', 'main');
    repository.git('branch', '--quiet', '-D', 'live');
    detector.signal('SIGHUP');
    const gone = await detector.until('the deletion is seen', (status) => !status.last_attempt.ok);
    assert.match(gone.last_attempt.failure?.message as string, /couldn't find remote ref refs\/heads\/live/);
    assert.deepEqual([gone.commit, gone.rules, await detector.ready()], [commit, 2, 200]);
  });

  it('is not ready while no rules are loaded', async (t) => {
    const { repository, detector } = made(t, ({ url }) => ({
      source: 'repository',
      url,
      path: 'rules',
      poll_seconds: 0.05,
    }));
    repository.commit({ 'README.md': 'no rules yet' });
    assert.ok(await detector.start(), detector.output);
    const response = await fetch(`${detector.url}/readyz`);
    assert.equal(response.status, 503);
    const { reasons } = (await response.json()) as { reasons: { probe: string; reason: string }[] };
    assert.match(reasons[0]?.reason as string, /^no rules are loaded: .*has no folder "rules"/);
    repository.commit({ 'rules/a.yml': A });
    await detector.until('the rules are found', (status) => status.rules === 1);
    assert.equal(await detector.ready(), 200);
  });
});
