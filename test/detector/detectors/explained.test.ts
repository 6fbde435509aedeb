import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { explained } from '../../../detector/detectors/all.js';
import type { Finding } from '../../../detector/detectors/finding.js';
import { newSubject, type Subject } from '../../../protocol/incident.js';

const finding = (
  kind: Finding['kind'],
  key: string,
  subject: Partial<Subject>,
  facts: Partial<Finding> = {},
): Finding => ({
  ...{
    kind,
    key,
    subject: newSubject('job', '1', subject),
    cause: 'network',
    summary: '',
    onsetStep: 100,
    onsetNs: 0n,
  },
  ...{ cost: { ms_per_step: 1, step_fraction: 0.1, gpu_seconds: 1 }, confidence: 1, evidence: {}, runnerUp: null },
  ...facts,
});

describe('slow transfers of a group in which a rank computes longer', () => {
  const MEMBERS: Record<string, number[]> = { near: [0, 1], far: [2, 3] };
  const link = (group: string): Finding => finding('nvlink_stall', `group=${group}`, { group });
  const rank = (facts: Partial<Finding>): Finding =>
    finding('straggler', 'rank=1', { ranks: [1] }, { cause: 'compute', onsetStep: 103, ...facts });
  const costing = (ms: number): Partial<Finding> => ({ cost: { ms_per_step: ms, step_fraction: 0.1, gpu_seconds: 1 } });
  const kept = (group: string, facts: Partial<Finding>): string[] =>
    explained([link(group), rank(facts)], (name) => MEMBERS[name] as number[]).map(({ kind }) => kind);

  it('are that rank’s doing where it began then and costs more', () => {
    assert.deepEqual(kept('near', costing(2)), ['straggler']);
  });

  it('are told of where it costs less, began at another time, only waits for its host, or is in another group', () => {
    for (const [group, facts] of [
      ['near', costing(0.5)],
      ['near', { ...costing(2), onsetStep: 150 }],
      ['near', { ...costing(2), cause: 'host' }],
      ['far', costing(2)],
    ] as const)
      assert.deepEqual(kept(group, facts), ['nvlink_stall', 'straggler']);
  });
});

describe('slow sends and receives', () => {
  const channel = finding('nvlink_stall', 'channel=pp 0->1', { group: 'pp 0->1' });
  const drift = finding('step_drift', 'job', {});
  const kept = (...others: Finding[]): string[] =>
    explained([channel, drift, ...others], () => []).map(({ kind }) => kind);

  it('say why steps became longer where nothing else does', () => {
    assert.deepEqual(kept(), ['nvlink_stall']);
  });

  it('may hold the waits for what else was found', () => {
    assert.deepEqual(kept(finding('straggler', 'rank=1', { ranks: [1] })), ['straggler']);
  });

  it('leave the drift to be told beside a heavy stage, which is none', () => {
    assert.deepEqual(kept(finding('stage_imbalance', 'stage=1', { stage: 1 })), ['step_drift', 'stage_imbalance']);
  });
});
