import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { type RepositoryConfig, RulesConfig } from '../../../../detector/rules/config.js';
import { repositorySource } from '../../../../detector/rules/sources/repository.js';
import type { RuleTexts } from '../../../../detector/rules/sources/source.js';
import { GitRepository } from './git-repository.js';

const never = new AbortController().signal;

function made(
  t: TestContext,
  config: Partial<RepositoryConfig> = {},
  env: Record<string, string | undefined> = process.env,
) {
  const repository = new GitRepository();
  t.after(() => repository.dispose());
  const parsed = RulesConfig.parse({
    source: 'repository',
    url: repository.url,
    path: 'rules',
    ...config,
  }) as RepositoryConfig;
  const dir = join(repository.folder, 'cache');
  const source = repositorySource(parsed, dir, env);
  return { repository, dir, read: (): Promise<RuleTexts> => source.read(never) };
}

describe('a repository that the detector polls itself', () => {
  it('is read at the newest commit of its branch, without a worktree', async (t) => {
    const { repository, dir, read } = made(t);
    const first = repository.commit({
      'rules/a.yml': 'one ä\n',
      'rules/team/b.yml': '',
      'rules/a.test.yml': 'x',
      'rules/.hidden/c.yml': 'x',
      'other/d.yml': 'x',
    });
    assert.deepEqual(await read(), {
      commit: first,
      texts: [
        { path: 'a.yml', text: 'one ä\n' },
        { path: 'team/b.yml', text: '' },
      ],
    });
    const second = repository.commit({ 'rules/a.yml': 'two', 'rules/team/b.yml': null });
    assert.deepEqual(await read(), { commit: second, texts: [{ path: 'a.yml', text: 'two' }] });
    assert.ok(!readdirSync(dir).includes('rules'));
  });

  it('follows a force push, to an older commit too', async (t) => {
    const { repository, read } = made(t);
    const first = repository.commit({ 'rules/a.yml': 'one' });
    repository.commit({ 'rules/a.yml': 'two' });
    await read();
    repository.git('reset', '--quiet', '--hard', first);
    assert.equal((await read()).commit, first);
    const rewritten = repository.commit({ 'rules/a.yml': 'rewritten' }, '--amend');
    assert.deepEqual(await read(), { commit: rewritten, texts: [{ path: 'a.yml', text: 'rewritten' }] });
  });

  it('says so when the branch is deleted, the path is gone or the repository cannot be reached', async (t) => {
    const { repository, read } = made(t, { branch: 'live' });
    repository.commit({ 'rules/a.yml': 'one' });
    await assert.rejects(read(), /git fetch: fatal: couldn't find remote ref refs\/heads\/live/);
    repository.git('branch', 'live');
    await read();
    repository.git('branch', '-D', 'live');
    await assert.rejects(read(), /couldn't find remote ref/);
    repository.commit({ 'rules/a.yml': null });
    repository.git('branch', 'live');
    await assert.rejects(read(), /commit [0-9a-f]{12} has no folder "rules"; correct the path of the rules/);
    repository.dispose();
    await assert.rejects(read(), /git (fetch|init)/);
  });

  it('tells why a repository cannot be read, not only that', async (t) => {
    const { read } = made(t, { url: 'file:///nowhere/rules.git' });
    await assert.rejects(read(), /git fetch: fatal: .*nowhere\/rules\.git.* does not/);
  });

  it('runs no hook of anybody, and is not led astray by variables of git', async (t) => {
    const { repository, dir, read } = made(t, {}, { ...process.env, GIT_DIR: '/nowhere', GIT_WORK_TREE: '/nowhere' });
    const commit = repository.commit({ 'rules/a.yml': 'one' });
    assert.equal((await read()).commit, commit);
    const marker = join(repository.folder, 'ran');
    writeFileSync(join(dir, 'hooks', 'reference-transaction'), `#!/bin/sh\ntouch ${marker}\n`, { mode: 0o755 });
    repository.commit({ 'rules/a.yml': 'two' });
    await read();
    assert.ok(!readdirSync(repository.folder).includes('ran'));
  });

  it('gives git the password from a file or the environment, and shows it nowhere', async (t) => {
    const secret = 'only-git-may-see-this';
    const { repository } = made(t);
    const commit = repository.commit({ 'rules/a.yml': 'one' });
    const asked: string[] = [];
    const url = await serve(t, repository, `robot:${secret}`, asked);
    const file = join(repository.folder, 'password');
    writeFileSync(file, `${secret}\n`);
    const common = { url, username: 'robot' };
    for (const config of [
      { ...common, password_file: file },
      { ...common, password_env: 'RULES_TOKEN' },
    ]) {
      const { read, dir } = made(t, config, { ...process.env, RULES_TOKEN: secret });
      assert.equal((await read()).commit, commit);
      const kept = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
      for (const entry of kept)
        assert.ok(!readFileSync(join(entry.parentPath, entry.name)).includes(secret), entry.name);
    }
    assert.ok(asked.every((line) => !line.includes(secret)));
    writeFileSync(file, 'wrong\n');
    const { read } = made(t, { ...common, password_file: file });
    await assert.rejects(
      read(),
      (error: Error) => /Authentication failed/.test(error.message) && !error.message.includes('wrong'),
    );
  });
});

describe('the configuration of rules', () => {
  it('takes no credentials in URLs, no branch that is an option, no path out of the tree', () => {
    const problem = (config: object): string | undefined =>
      RulesConfig.safeParse({ source: 'repository', url: 'https://git.example/r.git', ...config }).error?.issues[0]
        ?.message;
    assert.equal(problem({}), undefined);
    assert.equal(problem({ url: 'git@git.example:team/rules.git' }), undefined);
    assert.match(problem({ url: 'https://me:secret@git.example/r.git' }) as string, /must not hold credentials/);
    for (const url of ['ext::sh -c touch% /tmp/x', '--upload-pack=touch /tmp/x', '/local/path'])
      assert.match(problem({ url }) as string, /must be an https, ssh or file URL/);
    for (const branch of ['--upload-pack=x', 'a b', 'a:b', ''])
      assert.equal(problem({ branch }), 'is not the name of a branch', branch);
    assert.equal(problem({ path: 'a/../../b' }), 'must not leave the tree');
  });
});

/** Serves the repository by git's own HTTP backend to who knows the credentials. */
async function serve(t: TestContext, repository: GitRepository, credentials: string, asked: string[]): Promise<string> {
  const backend = join(repository.git('--exec-path'), 'git-http-backend');
  const expected = `Basic ${Buffer.from(credentials).toString('base64')}`;
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    if (request.headers.authorization === expected) runCgi(backend, repository.dir, request, response);
    else response.writeHead(401, { 'www-authenticate': 'Basic realm="rules"' }).end();
  });
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  t.after(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/.git`;
}

function runCgi(backend: string, root: string, request: IncomingMessage, response: ServerResponse): void {
  const { pathname, search } = new URL(request.url as string, 'http://localhost');
  const child = spawn(backend, {
    env: {
      ...{ PATH: process.env.PATH, GIT_PROJECT_ROOT: root, GIT_HTTP_EXPORT_ALL: '1', REQUEST_METHOD: request.method },
      ...{ PATH_INFO: pathname, QUERY_STRING: search.slice(1), CONTENT_TYPE: request.headers['content-type'] ?? '' },
      ...{
        HTTP_CONTENT_ENCODING: String(request.headers['content-encoding'] ?? ''),
        GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
      },
    },
  });
  request.pipe(child.stdin);
  const chunks: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
  child.on('close', () => {
    const output = Buffer.concat(chunks);
    const end = output.indexOf('\r\n\r\n');
    for (const line of output.subarray(0, end).toString().split('\r\n')) {
      const [name, value] = line.split(': ') as [string, string];
      if (name === 'Status') response.statusCode = Number.parseInt(value, 10);
      else response.setHeader(name, value);
    }
    response.end(output.subarray(end + 4));
  });
}
