import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DEFAULT_PARAMS } from '../../../detector/detectors/params.js';
import { PartitionPipeline } from '../../../detector/pipeline/partition-pipeline.js';
import type { RulesInForce } from '../../../detector/rules/rules-in-force.js';
import type { PhaseBatch } from '../../../protocol/phase-batch.js';
import { simulate } from '../../../simulator/simulate.js';
import { fileOf, ruleSet } from '../rules/support.js';

/** A run in which a kind is found by default, and values of its parameters at which it is not. */
const CASES: readonly [kind: string, run: { scenario: string; ranks: number; steps: number }, strict: object][] = [
  ['straggler', { scenario: 'straggler', ranks: 8, steps: 120 }, { min_effect: 0.5 }],
  ['stage_imbalance', { scenario: 'stage', ranks: 16, steps: 60 }, { ratio: 5 }],
  ['load_imbalance', { scenario: 'load-imbalance', ranks: 8, steps: 120 }, { ratio: 50, min_effect: 0.8 }],
  ['step_drift', { scenario: 'step-jump', ranks: 8, steps: 200 }, { ratio: 2 }],
  ['transient_stall', { scenario: 'transient-stall', ranks: 8, steps: 120 }, { ratio: 200, min_seconds: 3600 }],
  [
    ...(['nvlink_stall', { scenario: 'serving-nvlink-stall', ranks: 8, steps: 120 }] as const),
    { ratio: 50, min_effect: 0.5 },
  ],
  ['comm_slow', { scenario: 'comm-slow', ranks: 16, steps: 120 }, { ratio: 50, min_effect: 0.5 }],
  ['rnic_flap', { scenario: 'rnic-flap', ranks: 16, steps: 400 }, { ratio: 90, min_effect: 0.8, bursts: 12 }],
  ['comm_hang', { scenario: 'comm-hang', ranks: 8, steps: 120 }, { steps: 1000, min_seconds: 7200 }],
  ['kv_recompute', { scenario: 'kv-recompute', ranks: 2, steps: 400 }, { min_effect: 1 }],
  ['no_cuda_graph', { scenario: 'no-cuda-graph', ranks: 8, steps: 800 }, { min_effect: 0.9 }],
  ['prefill_blocking', { scenario: 'prefill-blocking', ranks: 8, steps: 300 }, { ratio: 90, min_effect: 0.9 }],
  [
    ...(['sched_imbalance', { scenario: 'sched-imbalance', ranks: 8, steps: 1500 }] as const),
    { min_waiting: 10_000, min_seconds: 3600, min_effect: 0.9 },
  ],
];

/** The last run's messages: two kinds share one. */
let made: { name: string; batches: readonly PhaseBatch[] } | undefined;

function kindsFound(run: (typeof CASES)[number][1], rules?: RulesInForce): Set<string> {
  const name = JSON.stringify(run);
  if (made?.name !== name) made = { name, batches: [...simulate({ ...run, seed: 1 })] };
  const pipeline = new PartitionPipeline(rules);
  const found = made.batches.flatMap((batch, i) => pipeline.add(batch, { place: '', offset: BigInt(i), again: false }));
  return new Set([...found, ...pipeline.flush()].map(({ after }) => after.kind));
}

describe('parameters of detectors that rules set', () => {
  for (const [kind, run, strict] of CASES) {
    it(`${kind}: each of ${Object.keys(strict).join(', ')} decides what is found`, () => {
      assert.ok(kindsFound(run).has(kind), 'found by default');
      for (const [name, value] of Object.entries(strict)) {
        const set = ruleSet(fileOf(`{id: a, kind: ${kind}, params: {${name}: ${value}}}`));
        assert.ok(!kindsFound(run, { current: set }).has(kind), `${name}: ${value}`);
      }
    });
    it(`${kind}: its defaults may be written out`, () => {
      const params = DEFAULT_PARAMS[kind as keyof typeof DEFAULT_PARAMS];
      const set = ruleSet(fileOf(`{id: a, kind: ${kind}, params: ${JSON.stringify(params)}}`));
      assert.deepEqual(set.forJob({ job: 'x' }).params, DEFAULT_PARAMS);
    });
  }
});
