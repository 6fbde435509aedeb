import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { folderSource } from '../../../../detector/rules/sources/folder.js';
import { gitSyncSource } from '../../../../detector/rules/sources/git-sync.js';
import { PicketError } from '../../../../protocol/errors.js';
import { GitRepository } from './git-repository.js';
import { GitSyncTree } from './git-sync-tree.js';

function tree(t: TestContext): { repository: GitRepository; sync: GitSyncTree } {
  const repository = new GitRepository();
  t.after(() => repository.dispose());
  return { repository, sync: new GitSyncTree(repository) };
}

const never = new AbortController().signal;

describe('a git-sync tree', () => {
  it('is read at the commit its link leads to, which is named', async (t) => {
    const { repository, sync } = tree(t);
    const source = gitSyncSource(sync.link, 'rules');
    const first = repository.commit({
      'rules/a.yml': 'one',
      'rules/team/b.yml': 'b',
      'rules/a.test.yml': 'test',
      'README.md': 'x',
    });
    sync.publish(first);
    assert.deepEqual(await source.read(never), {
      commit: first,
      texts: [
        { path: 'a.yml', text: 'one' },
        { path: 'team/b.yml', text: 'b' },
      ],
    });
    const second = repository.commit({ 'rules/a.yml': 'two', 'rules/team/b.yml': null });
    sync.publish(second);
    assert.deepEqual(await source.read(never), { commit: second, texts: [{ path: 'a.yml', text: 'two' }] });
  });

  it('never shows two commits at once while links are flipped and old trees removed', async (t) => {
    const { repository, sync } = tree(t);
    const files = (text: string) => Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`rules/f${i}.yml`, text]));
    const commits = ['one', 'two', 'three', 'four'].map((text) => [repository.commit(files(text)), text] as const);
    sync.publish(commits[0]?.[0] as string);
    const source = gitSyncSource(sync.link, 'rules');
    const seen = new Set<string | null>();
    for (const [commit] of commits) {
      const reading = source.read(never);
      sync.publish(commit);
      const read = await reading;
      seen.add(read.commit);
      const text = commits.find(([known]) => known === read.commit)?.[1];
      assert.deepEqual(new Set(read.texts.map((each) => each.text)), new Set([text]));
      assert.equal(read.texts.length, 30);
    }
    assert.ok(seen.size >= 2);
  });

  it('says what is wrong with the link, or the path within', async (t) => {
    const { repository, sync } = tree(t);
    await assert.rejects(gitSyncSource(sync.link, 'rules').read(never), (error: PicketError) => {
      assert.equal(error.message, `${sync.link}: the link cannot be resolved (ENOENT); see whether git-sync runs`);
      return true;
    });
    sync.publish(repository.commit({ 'README.md': 'x' }));
    await assert.rejects(
      gitSyncSource(sync.link, 'rules').read(never),
      /rules: cannot be read \(ENOENT\); give an existing folder/,
    );
  });
});

describe('a folder', () => {
  it('is read through the links of a Kubernetes ConfigMap, each file once', async (t) => {
    const { repository } = tree(t);
    const folder = join(repository.folder, 'config');
    const publish = (version: string, text: string): void => {
      mkdirSync(join(folder, version), { recursive: true });
      writeFileSync(join(folder, version, 'a.yml'), text);
      rmSync(join(folder, '..data'), { force: true });
      symlinkSync(version, join(folder, '..data'));
    };
    publish('..2026_01_01', 'one');
    symlinkSync('..data/a.yml', join(folder, 'a.yml'));
    const source = folderSource(folder);
    assert.deepEqual(await source.read(never), { commit: null, texts: [{ path: 'a.yml', text: 'one' }] });
    publish('..2026_01_02', 'two');
    assert.deepEqual((await source.read(never)).texts, [{ path: 'a.yml', text: 'two' }]);
  });

  it('names what in it cannot be a rule file, and never waits for it', async (t) => {
    const { repository } = tree(t);
    const folder = join(repository.folder, 'odd');
    mkdirSync(folder);
    const path = join(folder, 'x.yml');
    const refused = async (make: () => void, message: string): Promise<void> => {
      make();
      await assert.rejects(folderSource(folder).read(never), (error: PicketError) => {
        assert.equal(error.message, `${path}: ${message}`);
        return true;
      });
      rmSync(path);
    };
    await refused(() => symlinkSync('nowhere', path), 'cannot be read (ENOENT); give one that exists and may be read');
    await refused(() => symlinkSync('.', path), 'leads back to a folder that it lies in; remove the link');
    await refused(() => execFileSync('mkfifo', [path]), 'is no regular file; give a file');
    await refused(() => {
      writeFileSync(path, '');
      truncateSync(path, 2 ** 33);
    }, 'is larger than 4194304 bytes; split the file');
    symlinkSync('nowhere', join(folder, 'README.md'));
    assert.deepEqual((await folderSource(folder).read(never)).texts, []);
  });

  it('that is not there is an error that names it', async () => {
    await assert.rejects(folderSource('/nowhere/at/all').read(never), PicketError);
  });
});
