import assert from 'node:assert/strict';
import { it } from 'node:test';
import { lintRules } from '../../../detector/rules/lint.js';
import { nsOf } from '../../../detector/rules/mute.js';
import { formatProblem } from '../../../detector/rules/problem.js';
import { loadRules } from '../../../detector/rules/rule-set.js';
import { fileOf } from './support.js';

function lint(...rules: string[]): string[] {
  const { files } = loadRules([{ path: 'r.yml', text: fileOf(...rules) }], null);
  const problems = lintRules(
    files.flatMap((file) => file.rules),
    files.flatMap((file) => file.switchedOff),
    nsOf('2026-06-01'),
  );
  return problems.map(formatProblem);
}

const OWNED = 'owner: me, runbook: there';

it('asks for owner and runbook of rules that page', () => {
  assert.deepEqual(lint('{id: a, kind: straggler}', '{id: b, kind: comm_slow, status: experimental}'), [
    'r.yml:5:9: group "g", rule "a": has no owner; add owner: to the rule or its group',
    'r.yml:5:9: group "g", rule "a": has no runbook; add runbook: with what to do about it',
  ]);
});

it('finds rules that can never match', () => {
  const found = lint(
    `{id: wide, kind: straggler, match: {job: "pretrain-*"}, ${OWNED}}`,
    `{id: dead, kind: straggler, match: {job: pretrain-7b, host: node-1}, ${OWNED}}`,
    `{id: other-kind, kind: comm_slow, match: {job: pretrain-7b}, ${OWNED}}`,
    `{id: wider, kind: straggler, ${OWNED}}`,
    `{id: after-all, kind: straggler, match: {engine: vllm}, ${OWNED}}`,
  );
  assert.deepEqual(found, [
    'r.yml:6:9: group "g", rule "dead": can never match: rule "wide" (r.yml:5) comes before it and matches all that it matches; put it before that rule, or narrow the match of that one',
    'r.yml:9:9: group "g", rule "after-all": can never match: rule "wider" (r.yml:8) comes before it and matches all that it matches; put it before that rule, or narrow the match of that one',
  ]);
});

it('finds labels with too many values, and exceptions that have expired', () => {
  const exceptions =
    'exceptions: [{name: x, reason: y, until: "2026-01-01", match: {job: z}}, {name: v, reason: w, until: "2027-01-01", match: {job: z}}]';
  assert.deepEqual(
    lint(`{id: a, kind: straggler, ${OWNED}, labels: {who: "rank {{ ranks }}", j: "{{ job }}"}, ${exceptions}}`),
    [
      'r.yml:5:9: group "g", rule "a": label "who" takes as many values as there are ranks; put it into annotations',
      'r.yml:5:125: group "g", rule "a": exception "x" has expired; remove it, or give it a later until',
    ],
  );
});
