import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DEFAULT_PARAMS } from '../../../detector/detectors/params.js';
import type { Verdict } from '../../../detector/rules/job-rules.js';
import { nsOf } from '../../../detector/rules/mute.js';
import type { RuleSet } from '../../../detector/rules/rule-set.js';
import type { IncidentKind } from '../../../protocol/incident.js';
import { fileOf, finding, ruleSet } from './support.js';

const NOW = nsOf('2026-06-01T12:00:00Z');

function verdict(set: RuleSet, about: Parameters<typeof finding>[0] = {}, job = 'job', engine?: string): Verdict {
  const policy = set.forJob({ job, ...(engine && { engine }) });
  return policy.judge(finding({ ...about, subject: { job, ...about?.subject } }), undefined, NOW);
}

const decidedBy = (each: Verdict): string =>
  each.outcome === 'drop' ? `drop: ${each.reason}` : `${each.outcome}: ${each.rule.id}`;

describe('the rules of a job', () => {
  it('let the first rule decide that fits job, engine, model and host', () => {
    const set = ruleSet(
      fileOf(
        '{id: hosts, kind: straggler, match: {job: "pretrain-*", host: ["node-2*", "!node-29"]}}',
        '{id: vllm, kind: straggler, match: {engine: vllm}}',
        '{id: off, kind: straggler, status: disabled}',
        '{id: rest, kind: straggler, match: {job: "!scratch-*"}}',
      ),
    );
    assert.equal(decidedBy(verdict(set, {}, 'pretrain-7b')), 'report: hosts');
    assert.equal(decidedBy(verdict(set, { subject: { hosts: ['node-29'] } }, 'pretrain-7b')), 'report: rest');
    assert.equal(decidedBy(verdict(set, { subject: { hosts: [] } }, 'pretrain-7b', 'vllm')), 'report: vllm');
    assert.equal(decidedBy(verdict(set)), 'report: rest');
    assert.equal(decidedBy(verdict(set, {}, 'scratch-1')), 'drop: no rule reports straggler here');
  });

  it('report lost records even where no rule does, unless one says otherwise', () => {
    const about = { kind: 'data_quality' as IncidentKind };
    assert.equal(decidedBy(verdict(ruleSet(fileOf('{id: a, kind: straggler}')), about)), 'report: data_quality');
    const off = 'apiVersion: picket/v1\nswitched_off: [{kind: data_quality, jobs: "*", reason: a test}]\n';
    assert.equal(decidedBy(verdict(ruleSet(off), about)), 'drop: data_quality is switched off for the job: a test');
  });

  it('leave out what an exception covers whole, until it ends', () => {
    const set = (until: string): RuleSet =>
      ruleSet(
        fileOf(
          `{id: a, kind: straggler, exceptions: [{name: old, reason: known, until: "${until}", match: {host: "node-2*", ranks: [2, 3], cause: [compute]}}]}`,
        ),
      );
    const later = set('2026-07-01');
    assert.equal(decidedBy(verdict(later)), 'drop: rule a, exception "old": known');
    assert.equal(decidedBy(verdict(later, { subject: { ranks: [2, 4] } })), 'report: a');
    assert.equal(decidedBy(verdict(later, { subject: { hosts: ['node-2', 'node-3'] } })), 'report: a');
    assert.equal(decidedBy(verdict(later, { subject: { hosts: [] } })), 'report: a');
    assert.equal(decidedBy(verdict(later, { cause: 'host' })), 'report: a');
    assert.equal(decidedBy(verdict(set('2026-06-01T12:00:00Z'))), 'report: a');
  });

  it('switch a kind off for some jobs until a time', () => {
    const text = (until: string): string =>
      `apiVersion: picket/v1\nswitched_off: [{kind: straggler, jobs: [bench-*], reason: on purpose, until: "${until}"}]\ngroups: [{name: g, rules: [{id: a, kind: straggler}]}]\n`;
    const set = ruleSet(text('2027-01-01'));
    assert.equal(decidedBy(verdict(set, {}, 'bench-1')), 'drop: straggler is switched off for the job: on purpose');
    assert.equal(decidedBy(verdict(set, {}, 'job')), 'report: a');
    assert.equal(decidedBy(verdict(ruleSet(text('2026-01-01')), {}, 'bench-1')), 'report: a');
  });

  it('mute in a window of event time', () => {
    const set = ruleSet(fileOf('{id: a, kind: straggler, mute: [{name: noon, from: "11:00", to: "13:00"}]}'));
    assert.deepEqual(decidedBy(verdict(set)), 'mute: a');
  });

  it('give severity by thresholds; experimental rules and kinds that inform never page', () => {
    const set = ruleSet(
      fileOf(
        '{id: a, kind: straggler, severity: {warning: 0.05, critical: 0.3}}',
        '{id: b, kind: comm_slow, status: experimental}',
        '{id: c, kind: transient_stall}',
        '{id: d, kind: comm_hang, severity: {warning: 0}}',
      ),
    );
    const levels = (kind: IncidentKind): string[] =>
      [0, 0.05, 0.2, 0.3].map((fraction) => {
        const each = verdict(set, { kind });
        assert.ok(each.outcome === 'report');
        return each.rule.severityOf(fraction);
      });
    assert.deepEqual(levels('straggler'), ['info', 'warning', 'warning', 'critical']);
    assert.deepEqual(levels('comm_slow'), ['info', 'info', 'info', 'info']);
    assert.deepEqual(levels('transient_stall'), ['info', 'info', 'info', 'info']);
    assert.deepEqual(levels('comm_hang'), ['warning', 'warning', 'critical', 'critical']);
  });

  it('set the parameters of detectors from the rule for the whole job', () => {
    const set = ruleSet(
      fileOf(
        '{id: a, kind: straggler, match: {host: node-1}}',
        '{id: b, kind: straggler, match: {job: x}, params: {min_effect: 0.3}}',
        '{id: c, kind: stage_imbalance, params: {ratio: 2}}',
      ),
    );
    assert.deepEqual(set.forJob({ job: 'x' }).params, {
      ...DEFAULT_PARAMS,
      straggler: { min_effect: 0.3 },
      stage_imbalance: { ratio: 2, persistence: 0.9 },
    });
    assert.deepEqual(set.forJob({ job: 'y' }).params.straggler, DEFAULT_PARAMS.straggler);
  });
});
