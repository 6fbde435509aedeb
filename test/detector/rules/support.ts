import assert from 'node:assert/strict';
import type { Finding } from '../../../detector/detectors/finding.js';
import { formatProblem } from '../../../detector/rules/problem.js';
import { parseRuleFile } from '../../../detector/rules/rule-file.js';
import { loadRules, type RuleSet } from '../../../detector/rules/rule-set.js';
import { newSubject, type Subject } from '../../../protocol/incident.js';

/** A rule file with one group whose rules are given as YAML flow mappings. */
export const fileOf = (...rules: string[]): string =>
  `apiVersion: picket/v1\ngroups:\n  - name: g\n    rules:\n${rules.map((rule) => `      - ${rule}\n`).join('')}`;

export function ruleSet(text: string, commit = 'c1'): RuleSet {
  const { set, problems } = loadRules([{ path: 'r.yml', text }], commit);
  assert.ok(set, problems.map(formatProblem).join('\n'));
  return set;
}

/** What is wrong with a file, as people read it. */
export const problemsOf = (text: string): string[] =>
  parseRuleFile({ path: 'r.yml', text }).problems.map(formatProblem);

export function finding(
  facts: Partial<Omit<Finding, 'subject'>> & { subject?: Partial<Subject>; fraction?: number } = {},
): Finding {
  const { subject, fraction = 0.15, ...rest } = facts;
  return {
    kind: 'straggler',
    key: 'ranks=2',
    subject: newSubject('job', '1', { ranks: [2], hosts: ['node-2'], ...subject }),
    cause: 'compute',
    summary: 'rank 2 is slow',
    onsetStep: 5,
    onsetNs: 5_000_000_000n,
    cost: { ms_per_step: 15, step_fraction: fraction, gpu_seconds: 1 },
    confidence: 0.9,
    evidence: { excess_ms: 15 },
    runnerUp: null,
    ...rest,
  };
}
