import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseRuleFile } from '../../../detector/rules/rule-file.js';
import { fileOf, problemsOf } from './support.js';

const KINDS =
  'straggler, nvlink_stall, rnic_flap, comm_slow, comm_hang, prefill_blocking, kv_recompute, no_cuda_graph, ' +
  'sched_imbalance, load_imbalance, stage_imbalance, tp_slow_path, step_drift, transient_stall, data_quality';
/** Where the first rule of `fileOf` stands. */
const at = (col: number): string => `r.yml:5:${col}: group "g", rule "a":`;

/** Every kind of mistake: what is written, and all that is said about it. */
const MISTAKES: [what: string, text: string, said: string[]][] = [
  ['nothing', '', ['r.yml:1:1: is empty; begin with "apiVersion: picket/v1"']],
  ['comments only', '# rules\n', ['r.yml:1:1: is empty; begin with "apiVersion: picket/v1"']],
  ['a list', '- a\n', ['r.yml:1:1: must be a mapping of fields; write {field: value}, or a field a line']],
  ['no version', 'groups: []\n', ['r.yml:1:1: "apiVersion" must be picket/v1; write "apiVersion: picket/v1"']],
  [
    'a version of another Picket',
    'apiVersion: picket/v9\n',
    ['r.yml:1:13: "apiVersion" must be picket/v1; write "apiVersion: picket/v1"'],
  ],
  [
    'a second document',
    'apiVersion: picket/v1\n---\napiVersion: picket/v1\n',
    ['r.yml:2:1: a second YAML document begins here and would be ignored; move it to a file of its own'],
  ],
  [
    'a key twice',
    `apiVersion: picket/v1\ngroups: []\ngroups: []\n`,
    ['r.yml:3:1: Map keys must be unique; keep one of them'],
  ],
  [
    'a file that was cut off',
    'apiVersion: picket/v1\ngroups:\n  - name: g\n    rules: [{id: a, kind: stra',
    [
      'r.yml:4:31: Flow map in block collection must be sufficiently indented and end with a }; close what is open, or indent it like its neighbours',
      'r.yml:4:31: Flow sequence in block collection must be sufficiently indented and end with a ]; close what is open, or indent it like its neighbours',
    ],
  ],
  [
    'a tab',
    'apiVersion: picket/v1\ngroups:\n\t- name: g\n',
    ['r.yml:3:1: Tabs are not allowed as indentation; indent with spaces'],
  ],
  ['a deep nest', `a: ${'['.repeat(100_000)}`, ['r.yml:1:1: is nested too deeply; write it flat']],
  [
    'a tag',
    'apiVersion: !!js/function picket/v1\n',
    ['r.yml:1:13: Unresolved tag: tag:yaml.org,2002:js/function; remove the tag'],
  ],
  [
    'an alias of nothing',
    'apiVersion: *nothing\n',
    [
      'r.yml:1:1: Unresolved alias (the anchor must be set before the alias): nothing; write out what the aliases repeat',
    ],
  ],
  [
    'an unknown field of the file, and of a group',
    'apiVersion: picket/v1\ngrups: []\ngroups:\n  - name: g\n    ownr: me\n    rules: [{id: a, kind: straggler}]\n',
    [
      'r.yml:2:1: field "grups" is not known; did you mean "groups"?',
      'r.yml:5:5: group "g": field "ownr" is not known; did you mean "owner"?',
    ],
  ],
  [
    'a group name twice, and an empty group',
    'apiVersion: picket/v1\ngroups:\n  - {name: g, rules: [{id: a, kind: straggler}]}\n  - {name: g, rules: []}\n',
    [
      'r.yml:4:12: group "g": the file has a group of this name already; put the rules together, or rename it',
      'r.yml:4:22: group "g": "rules" is empty; give a value, or leave the field out',
    ],
  ],
  ['no kind', fileOf('{id: a}'), [`${at(9)} "kind" is missing; use one of ${KINDS}`]],
  [
    'an unknown kind',
    fileOf('{id: a, kind: stragler}'),
    [`${at(23)} "kind" is no kind of incident; did you mean "straggler"? use one of ${KINDS}`],
  ],
  [
    'no id',
    fileOf('{kind: straggler}'),
    ['r.yml:5:9: group "g", rule "#1": "id" is missing; add it (a text in quotes)'],
  ],
  [
    'an id that is none',
    fileOf('{id: My Rule, kind: straggler}'),
    [
      'r.yml:5:14: group "g", rule "My Rule": "id" is not an id; use up to 64 of a-z, 0-9, _ and -, and never change it',
    ],
  ],
  [
    'a misspelt field',
    fileOf('{id: a, kind: straggler, serverity: {}}'),
    [`${at(34)} field "serverity" is not known; did you mean "severity"?`],
  ],
  [
    'a misspelt parameter',
    fileOf('{id: a, kind: straggler, params: {min_efect: 1}}'),
    [`${at(43)} field "min_efect" is not known; did you mean "min_effect"?`],
  ],
  [
    'parameters of a kind without',
    fileOf('{id: a, kind: data_quality, params: {min_effect: 1}}'),
    [
      `${at(37)} field "params" is not known; known are id, status, description, owner, runbook, match, for, keep_firing_for, reopen_within, noData, exceptions, mute, labels, annotations, kind`,
    ],
  ],
  ['bytes that are no text', '# caf\ufffd\n', ['r.yml:1:6: is no UTF-8 text; save the file as UTF-8']],
  [
    'more than a rule file can be',
    '#'.repeat(1024 * 1024 + 1),
    ['r.yml:1:1: is larger than 1048576 characters; split the file'],
  ],
  [
    'a rule that is a word',
    fileOf('hello'),
    [
      'r.yml:5:9: group "g", rule "#1": an entry of "rules" must be a mapping of fields; write {field: value}, or a field a line',
    ],
  ],
  [
    'one severity where detectors tell the cost',
    fileOf('{id: a, kind: straggler, severity: critical}'),
    [`${at(44)} "severity" must be thresholds; write severity: {warning: 0.1, critical: 0.2}`],
  ],
  [
    'a parameter without a value',
    fileOf('{id: a, kind: straggler, params: }'),
    [`${at(42)} "params" is empty; give a mapping of fields`],
  ],
  [
    'an expression nested without end',
    fileOf(`{id: a, kind: straggler, expr: "${'!'.repeat(20_000)}true"}`),
    [`${at(41)} is nested too deeply; write it flat`],
  ],
  [
    'a parameter that is not whole',
    fileOf('{id: a, kind: rnic_flap, params: {bursts: 2.5}}'),
    [`${at(51)} "bursts" must be a whole number; write one such as 3`],
  ],
  [
    'parameters of a kind that there is not',
    fileOf('{id: a, kind: rnic_flaps, params: {bursts: 4}}'),
    [`${at(23)} "kind" is no kind of incident; did you mean "rnic_flap"? use one of ${KINDS}`],
  ],
  [
    'a parameter out of range',
    fileOf('{id: a, kind: stage_imbalance, params: {ratio: 0.5}}'),
    [`${at(56)} "ratio" must be at least 1.01; give more`],
  ],
  [
    'parameters for some hosts',
    fileOf('{id: a, kind: straggler, match: {host: n*}, params: {min_effect: 0.1}}'),
    [
      `${at(61)} parameters hold for whole jobs, and the rule is for some hosts; match by job, or leave the parameters out`,
    ],
  ],
  [
    'a duration that is none',
    fileOf('{id: a, kind: straggler, for: 30 sec}'),
    [`${at(39)} "for" is not a duration; write 0s, 30s, 1h30m or "20 steps"`],
  ],
  [
    'a number for a text',
    fileOf('{id: a, kind: straggler, owner: 3}'),
    [`${at(41)} "owner" must be a text in quotes; write "it" so`],
  ],
  [
    'no globs',
    fileOf('{id: a, kind: straggler, match: {job: []}}'),
    [`${at(47)} "job" is empty; give a value, or leave the field out`],
  ],
  [
    'thresholds the wrong way round',
    fileOf('{id: a, kind: straggler, severity: {warning: 0.3}}'),
    [`${at(44)} "severity" has a warning above critical; raise critical (default 0.2) or lower warning (default 0.1)`],
  ],
  [
    'thresholds of a kind that only informs',
    fileOf('{id: a, kind: data_quality, severity: {warning: 0.3}}'),
    [
      `${at(37)} field "severity" is not known; known are id, status, description, owner, runbook, match, for, keep_firing_for, reopen_within, noData, exceptions, mute, labels, annotations, kind`,
    ],
  ],
  [
    'a policy that is none',
    fileOf('{id: a, kind: straggler, noData: ok}'),
    [`${at(42)} "noData" is none of the values there are; use one of keep, resolve`],
  ],
  [
    'an exception without reason, of nothing',
    fileOf('{id: a, kind: straggler, exceptions: [{name: x, match: {}}]}'),
    [
      `${at(47)} "reason" is missing; add it (a text in quotes)`,
      `${at(64)} "match" excepts everything; name what is excepted, or set status: disabled`,
    ],
  ],
  [
    'a mute window that is none',
    fileOf(
      '{id: a, kind: straggler, mute: [{name: x, from: "2:00"}, {name: y, from: "02:00", to: "03:00", time_zone: Mars}]}',
    ),
    [
      `${at(41)} an entry of "mute" is no window; give from and to (with days, time_zone), or starts and ends`,
      `${at(57)} "from" is not a time of day; write "02:30"`,
      `${at(115)} "time_zone" is not a time zone; write one like Europe/Berlin`,
    ],
  ],
  [
    'a window that ends before it starts',
    fileOf('{id: a, kind: straggler, mute: [{name: x, starts: 2026-01-02T00:00:00Z, ends: 2026-01-01T00:00:00Z}]}'),
    [`${at(87)} "ends" is not after starts; give a later time`],
  ],
  [
    'labels that Picket sets, that cannot be and that change',
    fileOf('{id: a, kind: straggler, labels: {job: x, "a-b": y, cost: "{{ cost.step_percent }}"}}'),
    [
      `${at(48)} label "job" is set by Picket; use another name`,
      `${at(51)} "a-b" is not a label name; use letters, digits and _`,
      `${at(67)} "cost.step_percent" changes while the incident lasts, and a label that changes is another alert; put it into annotations`,
    ],
  ],
  [
    'templates that name nothing',
    fileOf('{id: a, kind: straggler, annotations: {x: "see {{ vlaue }}", y: "{{ job"}}'),
    [
      `${at(56)} "{{ vlaue }}" is no field of an incident; use one of job, run, ranks, hosts, stage, group, link, nic, requests, phase, instance, gpu, graph, source, kind, summary, severity, cause, onset_step, detected_step, last_step, confidence, cost.ms_per_step, cost.step_percent, cost.gpu_seconds, evidence.NAME`,
      `${at(74)} braces do not match; write {{ field }}`,
    ],
  ],
  [
    'an expression that does not parse, and one of the wrong type',
    fileOf('{id: a, kind: load_imbalance, expr: "now.step.mean_ms >", cost_ms: "ranks"}'),
    [
      `${at(64)} Unexpected token: EOF; correct the CEL expression`,
      `${at(77)} gives int, not double; write a number such as 1.0`,
    ],
  ],
  [
    'an expression over lines',
    'apiVersion: picket/v1\ngroups:\n  - name: g\n    rules:\n      - id: a\n        kind: load_imbalance\n        expr: |\n          now.step.mean_ms > 1.0 &&\n            now.phase("mlp").men_ms > 1.0\n',
    [
      'r.yml:9:30: group "g", rule "a": No such key: men_ms; use step, compute, memory, data, host, gap, tokens_per_second or phase("…") of a window, mean_ms, median_ms, p90_ms, min_ms, max_ms, share or steps of a statistic',
    ],
  ],
  [
    'thresholds of an expression without cost',
    fileOf('{id: a, kind: load_imbalance, expr: now.step.mean_ms > 1.0, severity: {warning: 0.1}}'),
    [`${at(79)} has thresholds and no cost; add cost_ms, or give one severity`],
  ],
  [
    'a kind switched off without reason',
    'apiVersion: picket/v1\nswitched_off:\n  - {kind: rnic_flap, jobs: "bench-*"}\n',
    ['r.yml:3:5: "reason" is missing; add it (a text in quotes)'],
  ],
];

describe('a mistake in a rule file is told with its line and column, and what to do:', () => {
  for (const [what, text, said] of MISTAKES) it(what, () => assert.deepEqual(problemsOf(text), said));
});

describe('a rule file', () => {
  it('has all its mistakes told at once, those of the texts of a refused rule too', () => {
    const text = fileOf(
      '{id: a, kind: straggler, fro: 1s, annotations: {x: "{{ y }}"}}',
      '{id: b, kind: nix, owner: 1}',
    );
    assert.deepEqual(
      problemsOf(text).map((problem) => problem.split(';')[0]),
      [
        'r.yml:5:34: group "g", rule "a": field "fro" is not known',
        'r.yml:5:61: group "g", rule "a": "{{ y }}" is no field of an incident',
        'r.yml:6:23: group "g", rule "b": "kind" is no kind of incident',
        'r.yml:6:35: group "g", rule "b": "owner" must be a text in quotes',
      ],
    );
  });

  it('gives rules with the defaults of their group, and a revision that follows what they say', () => {
    const text = (owner: string): string =>
      `apiVersion: picket/v1\ngroups:\n  - {name: g, owner: ${owner}, labels: {team: x}, rules: [{id: a, kind: straggler, labels: {tier: "1"}}]}\n`;
    const [rule] = parseRuleFile({ path: 'r.yml', text: text('me') }).rules;
    assert.equal(rule?.owner, 'me');
    assert.deepEqual([...(rule?.labels.keys() ?? [])], ['team', 'tier']);
    const again = parseRuleFile({ path: 'other.yml', text: `# moved\n${text('me')}` }).rules[0];
    assert.equal(again?.revision, rule?.revision, 'neither place nor comments count');
    assert.notEqual(parseRuleFile({ path: 'r.yml', text: text('you') }).rules[0]?.revision, rule?.revision);
  });

  it('may use anchors, and no more of them than a person would', () => {
    const shared =
      'apiVersion: picket/v1\ngroups:\n  - name: g\n    rules:\n      - {id: a, kind: straggler, match: &m {job: x}}\n      - {id: b, kind: comm_slow, match: *m}\n';
    assert.deepEqual(problemsOf(shared), []);
    const bomb = `apiVersion: picket/v1\na: &a [x, x]\n${[...'bcdefghi'].map((name, i) => `${name}: &${name} [${Array(9).fill(`*${'abcdefgh'[i]}`)}]\n`).join('')}`;
    assert.match(problemsOf(bomb)[0] as string, /^r\.yml:1:1: Excessive alias count/);
  });
});
