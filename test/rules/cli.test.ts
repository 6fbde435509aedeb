import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { GitRepository } from '../detector/rules/sources/git-repository.js';
import { EXCERPT, folderOf, picket } from './support.js';

const rulesFile = (...rules: string[]): string =>
  `apiVersion: picket/v1\ngroups:\n  - name: g\n    owner: me\n    runbook: there\n    rules:\n${rules.map((rule) => `      - ${rule}\n`).join('')}`;
const STRAGGLER = '{id: slow, kind: straggler}';

describe('picket rules check', () => {
  const BAD = {
    'a.yml': rulesFile('{id: a, kind: straggler, fro: 1s}'),
    'b.yml': rulesFile('{id: b, kind: nix}'),
    'b.test.yml': 'not: read',
  };

  it('names every mistake of every file and exits 1', (t) => {
    const { exit, out } = picket(['rules', 'check', '.'], folderOf(t, BAD));
    assert.equal(exit, 1);
    const lines = out.trim().split('\n');
    assert.deepEqual(
      lines.map((line) => line.split(';')[0]),
      [
        'a.yml:7:34: group "g", rule "a": field "fro" is not known',
        'b.yml:7:23: group "g", rule "b": "kind" is no kind of incident',
        '2 files, 0 rules: 2 errors, 0 warnings',
      ],
    );
  });

  it('exits 1 for what is likely a mistake, too, and for no files at all', (t) => {
    const unowned = 'apiVersion: picket/v1\ngroups: [{name: g, rules: [{id: a, kind: straggler}]}]\n';
    const { exit, out } = picket(['rules', 'check', '.'], folderOf(t, { 'a.yml': unowned }));
    assert.equal(exit, 1);
    assert.match(
      out,
      /has no owner; .* \[owner\]\n.*has no runbook; .* \[runbook\]\nnote: no rule here reports nvlink_stall/,
    );
    assert.equal(picket(['rules', 'check', '.'], folderOf(t, { 'README.md': '' })).exit, 1);
  });

  it('writes JSON, and annotations for GitHub', (t) => {
    const folder = folderOf(t, BAD);
    const report = JSON.parse(picket(['rules', 'check', '.', '--format', 'json'], folder).out);
    assert.deepEqual([report.files, report.problems.length, report.problems[0].check], [2, 2, 'schema']);
    assert.deepEqual(Object.keys(report.problems[0]), [
      'file',
      'line',
      'col',
      'group',
      'rule',
      'level',
      'check',
      'message',
      'remedy',
    ]);
    const [first] = picket(['rules', 'check', '.', '--format', 'github'], folder).out.split('\n');
    assert.match(
      first as string,
      /^::error file=a\.yml,line=7,col=34,title=schema::group "g", rule "a": field "fro" is not known; did you mean "for"\?/,
    );
  });

  it('exits 2 for what does not exist', () => {
    assert.equal(picket(['rules', 'check', '/nowhere/at/all']).exit, 2);
    assert.equal(picket(['rules', 'check', '--format', 'xml']).exit, 2);
  });
});

describe('picket rules test', () => {
  const test = (expect: string, name = 'slow'): string =>
    `apiVersion: picket/v1\nrule_files: [r.yml]\ntests:\n  - name: ${name}\n    findings:\n      series: [{kind: straggler, subject: {ranks: [3]}, step_fraction: "_x4 0.15x4 _"}]\n    expect: ${expect}\n`;
  const files = (...tests: string[]): Record<string, string> => ({
    'r.yml': rulesFile(STRAGGLER),
    ...Object.fromEntries(tests.map((text, i) => [`${i}.test.yml`, text])),
  });

  it('passes when what opens is what was expected', (t) => {
    const expect =
      '[{rule: slow, severity: warning, subject: {ranks: [3]}, detected_step: 4, resolved_step: [8, 10], labels: {owner: me}, annotations: {runbook_url: there}}]';
    assert.deepEqual(picket(['rules', 'test', '.'], folderOf(t, files(test(expect)))), {
      exit: 0,
      out: 'ok   0.test.yml: slow\n1 passed, 0 failed\n',
      err: '',
    });
  });

  it('fails on what did not open, on what was not expected and on what is otherwise, and shows the difference', (t) => {
    const folder = folderOf(
      t,
      files(test('[]', 'none'), test('[{severity: critical, resolved_step: null}]', 'other'), test('[{}, {}]', 'two')),
    );
    const { exit, out } = picket(['rules', 'test', '.', '--diff', '--junit', 'j.xml'], folder);
    assert.equal(exit, 1);
    assert.match(
      out,
      /FAIL 0\.test\.yml: none\n {5}opened and was not expected: warning straggler of rule slow, onset step 4, opened at step 4/,
    );
    assert.match(
      out,
      /FAIL 1\.test\.yml: other\n.*which did not open; nearest: warning straggler.*\n {7}- severity: "critical"\n {7}\+ severity: "warning"\n {7}- resolved_step: null\n {7}\+ resolved_step: 9\n/,
    );
    assert.match(out, /FAIL 2\.test\.yml: two\n {5}expected {}, which did not open\n0 passed, 3 failed\n$/);
    const xml = readFileSync(join(folder, 'j.xml'), 'utf8');
    assert.match(
      xml,
      /<testsuite name="1\.test\.yml" tests="1" failures="1">\n {4}<testcase classname="1\.test\.yml" name="other" time="[\d.]+">\n {6}<failure message="expected \{&quot;severity&quot;/,
    );
  });

  it('runs the tests whose names fit; none at all is a failure', (t) => {
    const folder = folderOf(t, files(test('[{}]', 'one'), test('[]', 'two')));
    assert.equal(
      picket(['rules', 'test', '.', '--run', '^one$'], folder).out,
      'ok   0.test.yml: one\n1 passed, 0 failed\n',
    );
    assert.equal(picket(['rules', 'test', '.', '--run', 'three'], folder).exit, 1);
    assert.equal(picket(['rules', 'test', '.', '--run', '('], folder).exit, 2);
  });

  it('fails on mistakes in test files and in the rules they name', (t) => {
    const both =
      'apiVersion: picket/v1\nrule_files: [r.yml]\ntests:\n  - {name: x, expect: [{svrity: info}], simulate: {scenario: healthy, ranks: 2, steps: 2}, findings: {series: []}}\n';
    const { exit, out } = picket(['rules', 'test', '.'], folderOf(t, files(both, test('[{}]').replace('_x4 ', 'x4 '))));
    assert.equal(exit, 1);
    assert.match(out, /0\.test\.yml:4:25: field "svrity" is not known; did you mean "severity"\?/);
    assert.match(out, /1\.test\.yml:6:\d+: "step_fraction" is no series; write "10x49 13x9"/);
    const wrongRule = folderOf(t, { ...files(test('[{}]')), 'r.yml': rulesFile('{id: a, kind: nix}') });
    assert.match(
      picket(['rules', 'test', '.'], wrongRule).out,
      /FAIL 0\.test\.yml: loads\n {5}r\.yml:7:23: group "g", rule "a": "kind" is no kind/,
    );
    const nothing = folderOf(t, files(test('[{}]').replace('findings:', 'finding:')));
    assert.match(
      picket(['rules', 'test', '.'], nothing).out,
      /has not one input; give one of trace, simulate, series, findings/,
    );
    assert.equal(picket(['rules', 'test', '.'], folderOf(t, { 'r.yml': rulesFile(STRAGGLER) })).exit, 2);
  });

  it('takes phases as promtool writes series, and options of the simulator', (t) => {
    const text = `apiVersion: picket/v1
rule_files: [r.yml]
tests:
  - name: a rank without rows in some steps
    series:
      ranks: 2
      hosts: [n0, n1]
      phases:
        - {phase: fwd, values: "10+0x59"}
        - {phase: fwd, rank: 1, values: "10x29 _x5 10x24"}
    expect: []
  - name: options that make no sense
    simulate: {scenario: nix, ranks: 2, steps: 5}
    expect: []
`;
    const { out } = picket(['rules', 'test', '.'], folderOf(t, files(text)));
    assert.match(
      out,
      /^ok {3}0\.test\.yml: a rank without rows in some steps\nFAIL 0\.test\.yml: options that make no sense\n {5}field "scenario": "nix" is not known; use one of/,
    );
  });
});

describe('picket rules backtest and diff', () => {
  it('say what would have fired, how often and for how long, and refuse above a limit', (t) => {
    const folder = folderOf(t, {
      'rules/r.yml': rulesFile(
        STRAGGLER,
        '{id: never, kind: step_drift, expr: now.phase("nix").mean_ms > 1.0, window: 8}',
      ),
    });
    const { exit, out } = picket(['rules', 'backtest', EXCERPT, '--max-alerts', '0'], folder);
    assert.equal(exit, 1);
    assert.match(out, /47,784 rows, rules of content-[0-9a-f]{12}: 1 incident, 1 of them alerts/);
    assert.match(out, /\nslow +1 +1 +1 +0\.5\d+ +0\.5\d+ +0\.\d+\n1 other rules did not fire\n/);
    assert.match(
      out,
      /Expressions that never had a value:\n {2}never: now\.phase\("nix"\) is not known in these steps\n/,
    );
    assert.match(out, /REFUSED: 1 alerts, at most 0 allowed\n$/);
    const allowed = picket(['rules', 'backtest', EXCERPT, '--max-alerts', '1', '--format', 'json'], folder);
    const report = JSON.parse(allowed.out);
    assert.deepEqual(
      [allowed.exit, report.alerts, report.limit, report.rules[0].rule, report.rules[0].openings],
      [0, 1, 1, 'slow', 1],
    );
  });

  it('honour every field: what is muted, excepted, waited for or kept firing', (t) => {
    const run = (
      rest: string,
    ): {
      alerts: number;
      suppressed: object;
      fired: { openSeconds: number; incident: { detected_step: number } }[];
    } => {
      const folder = folderOf(t, { 'rules/r.yml': rulesFile(`{id: slow, kind: straggler${rest}}`) });
      return JSON.parse(picket(['rules', 'backtest', EXCERPT, '--format', 'json'], folder).out);
    };
    const plain = run('').fired[0];
    assert.equal(
      run(', for: 20 steps').fired[0]?.incident.detected_step,
      (plain?.incident.detected_step as number) + 20,
    );
    assert.equal(run(', for: 1h').fired.length, 0);
    assert.deepEqual(run(', exceptions: [{name: x, reason: y, match: {ranks: [0]}}]').suppressed, {
      'rule slow, exception "x": y': 1,
    });
    assert.deepEqual(run(', mute: [{name: m, from: "00:00", to: "00:00"}]').suppressed, { 'rule slow, mute "m"': 1 });
    assert.equal(run(', severity: {warning: 0.9, critical: 0.95}').alerts, 0);
    assert.equal(run(', status: experimental').alerts, 0);
  });

  it('compare two folders', (t) => {
    const [old, now] = [STRAGGLER, '{id: slow, kind: straggler, for: 3 steps}'].map((rule) =>
      folderOf(t, { 'r.yml': rulesFile(rule) }),
    ) as [string, string];
    assert.match(picket(['rules', 'diff', old, now]).out, /^changed slow\n {2}for: \(not set\) -> "3 steps"\n/);
    assert.match(picket(['rules', 'diff', now, '--rules', now]).out, /^No rule differs/);
  });

  it('compare two commits', (t) => {
    const repository = new GitRepository();
    t.after(() => repository.dispose());
    const commit = (...rules: string[]): string => repository.commit({ 'team/rules/r.yml': rulesFile(...rules) });
    const old = commit(STRAGGLER, '{id: drift, kind: step_drift}');
    const now = commit(
      '{id: slow, kind: straggler, for: 3 steps, severity: {critical: 0.9}}',
      '{id: hang, kind: comm_hang}',
    );
    repository.commit({ 'team/rules/r.yml': 'not: rules' });
    const folder = join(repository.dir, 'team');
    const diff = picket(['rules', 'diff', old, now], folder);
    assert.deepEqual(
      [diff.exit, diff.out],
      [
        0,
        'removed drift\nadded hang\nchanged slow\n  for: (not set) -> "3 steps"\n  severity: (not set) -> {"critical":0.9}\n',
      ],
    );
    const backtest = picket(['rules', 'backtest', EXCERPT, '--at', now, '--against', old], folder);
    assert.match(
      backtest.out,
      new RegExp(
        `Difference to the rules of ${old} .*:\n {2}~ host_straggler, straggler: severity critical -> warning, opened at step \\d+ -> \\d+, open for`,
      ),
    );
    const broken = picket(['rules', 'diff', old], folder);
    assert.equal(broken.exit, 1);
    assert.match(broken.err, /r\.yml:1:1: field "not" is not known/);
    assert.equal(picket(['rules', 'diff', 'nix'], folder).exit, 2);
    assert.match(
      picket(['rules', 'diff', 'HEAD', '--rules', folderOf(t, { 'x.yml': '' })]).err,
      /is in no Git repository/,
    );
  });

  it('read no rules that cannot be used, and rows from one place only', (t) => {
    const bad = folderOf(t, { 'rules/r.yml': rulesFile('{id: a, kind: nix}') });
    const refused = picket(['rules', 'backtest', EXCERPT], bad);
    assert.deepEqual([refused.exit, refused.out], [2, '']);
    assert.match(refused.err, /the rules cannot be used:\nrules\/r\.yml:7:23: /);
    assert.equal(picket(['rules', 'backtest']).exit, 2);
    assert.equal(picket(['rules', 'backtest', EXCERPT, '--brokers', 'x:1']).exit, 2);
  });
});

describe('picket analyze --rules', () => {
  it('reports what the rules let through, and says what they did not', (t) => {
    const folder = folderOf(t, {
      'rules/r.yml': rulesFile(
        '{id: slow, kind: straggler, match: {job: healthy}}',
        '{id: pause, kind: transient_stall}',
      ),
    });
    const text = picket(['analyze', EXCERPT, '--rules', join(folder, 'rules')]).out;
    assert.match(text, /^No incident\.\n\nNot reported, as the rules say:\n {2}1 x no rule reports straggler here\n/);
    const json = JSON.parse(picket(['analyze', EXCERPT, '--rules', join(folder, 'rules'), '--format', 'json']).out);
    assert.equal(json.incidents.length, 0);
    assert.equal(Object.values(json.suppressed)[0], 1);
  });
});
