import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, readFileSync, symlinkSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, it } from 'node:test';
import { parse } from 'yaml';
import { parseTestFile } from '../../cli/rules/test-file.js';
import { RulesConfig } from '../../detector/rules/config.js';
import { INCIDENT_KINDS } from '../../protocol/incident.js';
import { problemsOf } from '../detector/rules/support.js';
import { folderOf } from './support.js';

const GUIDE = readFileSync('docs/rules.md', 'utf8');
const PROGRAM = resolve(import.meta.dirname, '../../cli/main.js');

interface Block {
  readonly kind: string;
  readonly text: string;
}

const blocks: Block[] = [...GUIDE.matchAll(/^```(\w[\w ]*)\n([\s\S]*?)^```$/gm)].map(([, kind, text]) => ({
  kind: kind as string,
  text: text as string,
}));

describe('docs/rules.md', () => {
  it('shows commands that work as they are pasted, and what they print', (t) => {
    const folder = folderOf(t, { 'bin/npx': `#!/bin/sh\nshift\nexec "${process.execPath}" "${PROGRAM}" "$@"\n` });
    chmodSync(join(folder, 'bin/npx'), 0o755);
    cpSync('rules', join(folder, 'rules'), { recursive: true });
    symlinkSync(resolve('fixtures'), join(folder, 'fixtures'));
    let [out, ran] = ['', 0];
    for (const { kind, text } of blocks) {
      if (kind === 'text')
        for (const line of text.trimEnd().split('\n')) assert.ok(out.includes(`${line}`), `${line}\nis not in\n${out}`);
      if (kind !== 'sh' && kind !== 'sh fails') continue;
      const env = { ...process.env, PATH: `${join(folder, 'bin')}:${process.env.PATH}` };
      const { status, stdout, stderr } = spawnSync('sh', ['-e', '-c', text], { cwd: folder, env, encoding: 'utf8' });
      assert.equal(status, kind === 'sh' ? 0 : 1, `${text}${stdout}${stderr}`);
      out = stdout;
      ran++;
    }
    assert.equal(ran, 5);
  });

  it('shows rules, tests and configurations that are right', () => {
    const yaml = blocks.filter(({ kind }) => kind === 'yaml').map(({ text }) => text);
    const [file, expression, tests, configs] = yaml as [string, string, string, string];
    assert.deepEqual(problemsOf(file), []);
    assert.deepEqual(problemsOf(`apiVersion: picket/v1\ngroups:\n  - name: g\n    rules:\n${expression}`), []);
    assert.deepEqual(parseTestFile(tests, 'x.test.yml').problems, []);
    const configurations = configs.split(/^(?=rules:)/m).map((text) => parse(text).rules);
    assert.deepEqual(
      configurations.map((each) => RulesConfig.parse(each).source),
      ['folder', 'git_sync', 'repository'],
    );
    assert.equal(yaml.length, 4);
  });

  it('says what to do about every kind, where the shipped rules send people', () => {
    for (const kind of INCIDENT_KINDS) assert.match(GUIDE, new RegExp(`^### ${kind}$`, 'm'));
  });
});

it('the shipped configuration shows the sources of rules as they are written', () => {
  const lines = readFileSync('deploy/detector.yaml', 'utf8').match(/^# rules: .*$/gm) ?? [];
  assert.deepEqual(
    lines.map((line) => RulesConfig.parse(parse(line.slice(2)).rules).source),
    ['git_sync', 'repository', 'folder'],
  );
});
