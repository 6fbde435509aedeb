import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ranksOfGroup } from '../../collector/group-ranks.js';
import type { StepFacts } from '../../collector/host-records.js';
import { JobRun } from '../../collector/job-run.js';
import { PhaseTable } from '../../collector/phase-table.js';
import { SegmentClock } from '../../collector/segment-clock.js';
import { Step } from '../../collector/step.js';
import type { RankStep } from '../../collector/step-rows.js';
import { newJobMeta } from '../../protocol/job-meta.js';
import { rowOf } from '../../protocol/phase-batch.js';

const SUMMED = { op: 'all_reduce', group: 'tp', bytes: -1, layer: -1, weight: 1 };
const PHASES = [
  { id: 0, name: 'all_reduce', kind: 1, ...SUMMED },
  { id: 1, name: 'mlp', kind: 0, ...SUMMED, op: '', group: '' },
];
const ALL = { batch_rows: 1, batch_ms: 0 };

const facts = (number: number): StepFacts => ({
  type: 'step',
  number,
  microbatch: -1,
  tokens: -1,
  prefillTokens: -1,
  decodeTokens: -1,
  contextTokens: -1,
  cachedTokens: -1,
  recomputedTokens: -1,
  batch: -1,
  graph: -1,
  running: -1,
  waiting: -1,
  preempted: -1,
  kvUsage: -1,
  requests: [],
  requestCount: 0,
  requestCut: false,
  host: [],
  hostDirty: false,
  closed: false,
});

/** A step of a rank with so long an all-reduce, or (undefined) none. */
function stepOf(rank: number, number: number, reduce?: number, group = 'tp'): RankStep {
  const phases = PHASES.map((phase) => (phase.group ? { ...phase, group } : phase));
  const table = new PhaseTable((from) => phases.slice(from), false);
  table.knows(0);
  const step = new Step(number, 0);
  const { sums } = step.partOf(facts(number));
  sums.add(1, 0, 10, -1);
  if (reduce !== undefined) {
    sums.add(0, 10, reduce, -1);
    sums.addItem(0, 10, reduce, -1, -1, -1);
  }
  return { rank, step, table, clock: new SegmentClock(0, { monotonicNs: 0n, realtimeNs: 1000n }, 0n) };
}

/** A step whose all-reduces are sampled: so many of them were stamped, each for `weight`. */
function sampledStep(rank: number, durations: number[], weight: number): RankStep {
  const one = stepOf(rank, 0);
  const { sums } = one.step.partOf(facts(0));
  for (const duration of durations) {
    sums.add(0, 10, duration, -1, weight);
    sums.addItem(0, 10, duration, -1, -1, -1, weight);
  }
  return one;
}

function jobOf(ranks: number[]): JobRun {
  const job = new JobRun(newJobMeta('j'), { epochBase: 0n, clockLimitNs: 1e5, layerDetail: false });
  for (const rank of ranks) job.join({ rank }, { tp: [0, 1] });
  return job;
}

/** What the job has to send, as rank, step, transfer (of the step's all-reduce). */
function sent(job: JobRun, nowMs: number): [number, number, number][] {
  job.release(nowMs);
  const batch = job.take(nowMs, ALL, true);
  if (!batch) return [];
  return Array.from({ length: batch.length }, (_, i) => rowOf(batch, i))
    .filter(({ phase }) => phase === 'all_reduce')
    .map(({ rank, step, transfer_ns }) => [rank, Number(step), Number(transfer_ns)]);
}

describe('a job on one host', () => {
  it('holds a step until the ranks of its groups have it', () => {
    const job = jobOf([0, 1]);
    job.deliver(stepOf(0, 1, 30), 0);
    assert.deepEqual(sent(job, 5000), []);
    job.deliver(stepOf(1, 1, 20), 5000);
    assert.deepEqual(sent(job, 5000), [
      [0, 1, 20],
      [1, 1, 20],
    ]);
  });

  it('tells the transfer of sampled collectives, also where ranks sampled differently', () => {
    const transferOf = (first: RankStep, second: RankStep): number => {
      const job = jobOf([0, 1]);
      job.deliver(first, 0);
      job.deliver(second, 0);
      return sent(job, 0)[0]?.[2] as number;
    };
    // Of each pair the shorter, for three of its kind; else the rank that spent less in all.
    assert.equal(transferOf(sampledStep(0, [30, 10], 3), sampledStep(1, [20, 40], 3)), 3 * (20 + 10));
    assert.equal(transferOf(sampledStep(0, [30, 10], 3), sampledStep(1, [20], 6)), 120);
    assert.equal(transferOf(sampledStep(0, [10], 5), sampledStep(1, [20], 3)), 50);
    assert.equal(transferOf(sampledStep(0, [10, 10], 1), sampledStep(1, [20], 1)), -1);
  });

  it('keeps the order of a rank’s steps while one of them is held', () => {
    const job = jobOf([0, 1]);
    job.deliver(stepOf(0, 1, 30), 0);
    job.deliver(stepOf(0, 2), 0);
    job.deliver(stepOf(0, 3, 30), 0);
    assert.deepEqual(sent(job, 1), []);
    job.deliver(stepOf(1, 1, 20), 2);
    assert.deepEqual(sent(job, 2), [
      [0, 1, 20],
      [1, 1, 20],
    ]);
    assert.deepEqual(job.over, false);
  });

  it('gives a silent rank up after ten seconds, and takes its step later', () => {
    const job = jobOf([0, 1]);
    job.deliver(stepOf(0, 1, 30), 0);
    assert.deepEqual(sent(job, 9_999), []);
    assert.deepEqual(sent(job, 10_000), [[0, 1, -1]]);
    job.deliver(stepOf(1, 1, 20), 11_000);
    assert.deepEqual(sent(job, 11_000), [[1, 1, 20]]);
  });

  it('does not wait for steps that a rank sent before the other was found', () => {
    const steps = Array.from({ length: 12 }, (_, step) => step);
    const job = jobOf([1]);
    for (const step of steps) job.deliver(stepOf(1, step, 20), 0);
    assert.equal(sent(job, 0).length, steps.length);
    job.join({ rank: 0 }, { tp: [0, 1] });
    for (const step of steps) job.deliver(stepOf(0, step, 30), 1);
    // What rank 1 took in them is known no more.
    assert.deepEqual(
      sent(job, 1),
      steps.map((step) => [0, step, -1]),
    );
    for (const rank of [0, 1]) job.deliver(stepOf(rank, 12, 20 + rank), 2);
    assert.deepEqual(sent(job, 2), [
      [0, 12, 20],
      [1, 12, 20],
    ]);
  });

  it('does not wait for a rank that has gone, nor for one of another host', () => {
    const gone = jobOf([0, 1]);
    gone.deliver(stepOf(0, 1, 30), 0);
    gone.leave(1);
    assert.deepEqual(sent(gone, 0), [[0, 1, -1]]);
    const alone = jobOf([0]);
    alone.deliver(stepOf(0, 1, 30), 0);
    assert.deepEqual(sent(alone, 0), [[0, 1, -1]]);
    alone.leave(0);
    assert.ok(alone.over);
  });

  it('learns the ranks of a group from its name, where that tells them', () => {
    const job = new JobRun(newJobMeta('j'), { epochBase: 0n, clockLimitNs: 1e5, layerDetail: false });
    for (const rank of [0, 1]) job.join({ rank }, {});
    job.deliver(stepOf(0, 1, 30, 'tp3:0-1'), 0);
    assert.deepEqual(sent(job, 0), []);
    job.deliver(stepOf(1, 1, 20, 'tp3:0-1'), 0);
    assert.deepEqual(sent(job, 0), [
      [0, 1, 20],
      [1, 1, 20],
    ]);
    assert.deepEqual(job.meta.groups, { 'tp3:0-1': [0, 1] });
    job.deliver(stepOf(0, 2, 30, 'dp1:0-8/8'), 0);
    assert.deepEqual(sent(job, 0), [[0, 2, -1]]);
    assert.deepEqual(Object.entries(job.meta.groups)[1], ['dp1:0-8/8', [0, 8]]);
  });

  it('makes nothing of groups that share a name', () => {
    const job = jobOf([0, 1]);
    assert.deepEqual(job.join({ rank: 2 }, { tp: [2, 3] }), ['tp']);
    assert.deepEqual(job.join({ rank: 3 }, { tp: [2, 3] }), []);
    job.deliver(stepOf(0, 1, 30), 0);
    assert.deepEqual(sent(job, 0), [[0, 1, -1]]);
  });

  it('sends a step again that has got more phases', () => {
    const job = jobOf([0, 1]);
    const early = stepOf(0, 1, 30);
    job.deliver(early, 0);
    job.deliver(stepOf(1, 1, 20), 0);
    assert.equal(sent(job, 0).length, 2);
    early.step.partOf(early.step.facts[0] as StepFacts).sums.add(1, 50, 5, -1);
    job.deliver(early, 1);
    assert.deepEqual(sent(job, 1), [[0, 1, 20]]);
  });

  it('sends once there are enough rows, or they are old enough, or a phase lasts', () => {
    const due = { batch_rows: 3, batch_ms: 1000 };
    const job = jobOf([0]);
    job.deliver(stepOf(0, 1), 0);
    assert.equal(job.take(999, due, false), undefined);
    assert.equal(job.take(1000, due, false)?.length, 1);
    for (const step of [2, 3, 4]) job.deliver(stepOf(0, step), 2000);
    assert.equal(job.take(2000, due, false)?.length, 3);
    const key = stepOf(0, 5).table.keys[1];
    assert.ok(key);
    const open = { key, layer: 3, step: 5, microbatch: -1, facts: facts(5), start: 7e9, sequence: -1 };
    job.deliverOpen(0, [open], 8e9, 3000);
    const batch = job.take(3000, due, false);
    assert.ok(batch);
    const { phase, layer, open: isOpen, start_ns, dur_ns } = rowOf(batch, 0);
    assert.deepEqual([phase, layer, isOpen, start_ns, dur_ns], ['mlp', 3, 1, 7_000_000_000n, 1_000_000_000n]);
  });
});

it('names of groups tell their ranks as the hook makes them', () => {
  const told: [string, number[] | undefined][] = [
    ['world:0-3', [0, 1, 2, 3]],
    ['dp12:1-9/4', [1, 5, 9]],
    ['tp~0af3:3,4,9', [3, 4, 9]],
    ['one:7', [7]],
    ['pp4:3>7', [3, 7]],
    ['pp4:any>7', undefined],
    ['big:#1a2b3c4d', undefined],
    ['tp', undefined],
    ['odd:9-3', undefined],
    ['odd:0-9/0', undefined],
    ['odd:0-99999999', undefined],
    ['odd:1,,2', undefined],
  ];
  for (const [name, ranks] of told) assert.deepEqual(ranksOfGroup(name), ranks, name);
});
