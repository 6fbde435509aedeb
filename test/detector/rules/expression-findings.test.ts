import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PartitionPipeline } from '../../../detector/pipeline/partition-pipeline.js';
import type { RuleSet } from '../../../detector/rules/rule-set.js';
import type { Incident } from '../../../protocol/incident.js';
import type { PhaseBatch } from '../../../protocol/phase-batch.js';
import { trace } from '../../support/trace.js';
import { fileOf, ruleSet } from './support.js';

/** Two ranks; rank 1's mlp takes `ms(step)`, everything else is steady. */
const rows = (ms: (step: number) => number | undefined, steps = 64): PhaseBatch[] => [
  ...trace({
    ...{ ranks: 2, steps, period: 30, jitter: 0 },
    meta: { ranks: [0, 1].map((rank) => ({ rank, host: `node-${rank}` })) },
    phases: (step, rank) => {
      const slow = rank === 1 ? ms(step) : 10;
      return [{ phase: 'attention', ms: 5 }, ...(slow === undefined ? [] : [{ phase: 'mlp', ms: slow }])];
    },
  }),
];

function run(
  set: RuleSet,
  batches: readonly PhaseBatch[],
): { pipeline: PartitionPipeline; log: string[]; last: Incident | undefined } {
  const pipeline = new PartitionPipeline({ current: set });
  const log: string[] = [];
  let last: Incident | undefined;
  const transitions = batches.flatMap((batch, i) =>
    pipeline.add(batch, { place: '', offset: BigInt(i), again: false }),
  );
  for (const { after } of [...transitions, ...pipeline.flush()]) {
    if (after.rule.id !== 'e') continue;
    last = after;
    log.push(`${after.timeline.at(-1)?.step} ${after.timeline.at(-1)?.event} ${after.subject.ranks} ${after.severity}`);
  }
  return { pipeline, log, last: pipeline.openIncidents().find(({ rule }) => rule.id === 'e') ?? last };
}

const rule = (rest: string): RuleSet => ruleSet(fileOf(`{id: e, kind: load_imbalance, ${rest}}`));

describe('an expression rule', () => {
  const late = rows((step) => (step >= 20 && step < 44 ? 16 : 10));

  it('is evaluated once a window, for the job or for each rank, and says what it rests on', () => {
    const expr = 'expr: now.phase("mlp").median_ms > 1.5 * peers.phase("mlp").median_ms';
    const { log, last } = run(rule(`${expr}, per: rank, window: 8, severity: critical, cause: workload`), late);
    assert.deepEqual(log, ['31 opened 1 critical', '47 resolved 1 critical']);
    assert.deepEqual([last?.subject.hosts, last?.onset_step, last?.cause], [['node-1'], 24, 'workload']);
    assert.deepEqual(last?.evidence, { 'now.phase("mlp").median_ms': 16, 'peers.phase("mlp").median_ms': 10 });
    assert.equal(last?.summary, 'now.phase("mlp").median_ms > 1.5 * peers.phase("mlp").median_ms on rank 1 in 8 steps');
  });

  it('takes its severity from its cost by the thresholds', () => {
    const cost = 'cost_ms: now.phase("mlp").mean_ms - 10.0';
    const { log, last } = run(
      rule(`expr: now.phase("mlp").mean_ms > 12.0, ${cost}, window: 4, severity: {warning: 0.09}`),
      late,
    );
    assert.deepEqual(log, ['23 opened  warning', '47 resolved  warning']);
    assert.deepEqual(last?.cost, { ms_per_step: 3, step_fraction: 0.1, gpu_seconds: 0.144 });
  });

  it('compares with the steps before, and has no value while there are none', () => {
    const { log, pipeline } = run(rule('expr: now.step.mean_ms > 0.0 && before.step.mean_ms > 0.0, window: 32'), late);
    assert.deepEqual(log, ['63 opened  info']);
    assert.deepEqual([...pipeline.expressionsWithoutValue()], []);
  });

  it('never fires without a value; one that is open is kept, or resolved where the rule asks for that', () => {
    const expr = 'expr: now.phase("mlp").max_ms > 12.0, per: rank, window: 8';
    const idle = rows((step) => (step < 16 ? 16 : undefined));
    assert.deepEqual(
      run(rule(expr), idle).log,
      ['7 opened 1 info', '23 resolved 1 info'],
      'one idle rank has a value: 0',
    );
    const absent = idle.map((batch, step) => (step < 16 ? batch : withoutMlp(step)));
    assert.deepEqual(run(rule(`${expr}, noData: keep`), absent).log, ['7 opened 1 info']);
    assert.deepEqual(run(rule(`${expr}, noData: resolve`), absent).log, ['7 opened 1 info', '23 resolved 1 info']);
    const never = run(rule('expr: "!(now.phase(\'nix\').max_ms > 1.0)", window: 8'), idle);
    assert.deepEqual(never.log, []);
    assert.deepEqual(
      [...never.pipeline.expressionsWithoutValue()],
      [['e', 'now.phase("nix") is not known in these steps']],
    );
  });

  it('gives the same after a restart from a snapshot at any message', () => {
    const set = rule(
      'expr: now.phase("mlp").median_ms > 1.5 * peers.phase("mlp").median_ms, per: rank, window: 8, for: 60ms, keep_firing_for: 5 steps',
    );
    const expected = run(set, late);
    for (let killedAt = 1; killedAt < late.length; killedAt += 7) {
      const first = new PartitionPipeline({ current: set });
      const log: string[] = [];
      const feed = (pipeline: PartitionPipeline, from: number, next: number, end: number): void => {
        for (let i = from; i < end; i++)
          for (const { after } of pipeline.add(late[i] as PhaseBatch, {
            place: '',
            offset: BigInt(i),
            again: i < next,
          }))
            if (after.rule.id === 'e')
              log.push(
                `${after.timeline.at(-1)?.step} ${after.timeline.at(-1)?.event} ${after.subject.ranks} ${after.severity}`,
              );
      };
      feed(first, 0, 0, killedAt);
      const second = new PartitionPipeline({ current: set });
      assert.ok(second.restore(first.snapshot()));
      feed(second, Number(first.oldestNeeded(BigInt(killedAt))), killedAt, late.length);
      assert.deepEqual(log, expected.log, `killed at ${killedAt}`);
    }
    assert.ok(expected.log.length >= 2);
  });

  it('goes on over an edit, and is judged by the new words at the end of the next window', () => {
    const rules = { current: rule('expr: now.step.mean_ms > 1.0, window: 4') as RuleSet };
    const pipeline = new PartitionPipeline(rules);
    const log: string[] = [];
    late.forEach((batch, i) => {
      if (i === 30) rules.current = rule('expr: now.step.mean_ms > 2.0, window: 4, annotations: {x: y}');
      if (i === 40) rules.current = rule('expr: now.step.mean_ms > 1000.0, window: 4');
      for (const { after } of pipeline.add(batch, { place: '', offset: BigInt(i), again: false }))
        if (after.rule.id === 'e') log.push(`${after.timeline.at(-1)?.step} ${after.timeline.at(-1)?.event}`);
    });
    assert.deepEqual(log, ['3 opened', '39 resolved']);
  });

  it('is resolved, with the reason, once it is gone from the rules', () => {
    const rules = { current: rule('expr: now.step.mean_ms > 1.0, window: 4') as RuleSet };
    const pipeline = new PartitionPipeline(rules);
    late.forEach((batch, i) => {
      pipeline.add(batch, { place: '', offset: BigInt(i), again: false });
    });
    rules.current = ruleSet(fileOf('{id: other, kind: load_imbalance}'), 'c2');
    const [transition] = pipeline.revise();
    assert.equal(transition?.after.timeline.at(-1)?.note, 'rule e applies no longer: rule e is gone (rules of c2)');
    assert.equal(pipeline.openIncidents().length, 0);
  });
});

function withoutMlp(step: number): PhaseBatch {
  return [
    ...trace({ ranks: 2, steps: 1, firstStep: step, period: 30, phases: () => [{ phase: 'attention', ms: 5 }] }),
  ][0] as PhaseBatch;
}
