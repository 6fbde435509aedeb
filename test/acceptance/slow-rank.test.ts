import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PartitionPipeline } from '../../detector/pipeline/partition-pipeline.js';
import type { Incident } from '../../protocol/incident.js';
import { type SimulateOptions, simulate } from '../../simulator/simulate.js';

/** Stragglers that are said of a simulated run. */
function stragglersOf(options: SimulateOptions): Incident[] {
  const pipeline = new PartitionPipeline();
  const found = new Map<string, Incident>();
  let offset = 0n;
  for (const batch of simulate(options))
    for (const { after } of pipeline.add(batch, { place: '', offset: offset++, again: false }))
      found.set(after.id, after);
  return [...found.values()].filter(({ kind }) => kind === 'straggler');
}

const vary = { ranks: 16, steps: 200, seed: 3 };

test('a GPU that is 10 % slow for its tokens is named, though the others hardly wait for it', () => {
  const [found, ...more] = stragglersOf({ ...vary, scenario: 'straggler-tokens-vary', strength: 0.1, onset: 90 });
  assert.ok(found);
  // Where it happens to come last more often it is said to hold up the others, too.
  for (const { subject } of more) assert.deepEqual(subject.ranks, found.subject.ranks);
  assert.deepEqual([found.cause, found.subject.ranks.length, found.severity], ['compute', 1, 'info']);
  assert.ok(found.detected_step >= 95 && found.detected_step <= 125, `${found.detected_step}`);
  assert.ok(found.cost.step_fraction < 0.05, `${found.cost.step_fraction}`);
  assert.ok(Math.abs((found.evidence.slower as number) - 0.1) < 0.05, `${found.evidence.slower}`);
});

test('ranks that get different tokens are no stragglers', () => {
  assert.deepEqual(stragglersOf({ ...vary, scenario: 'healthy-tokens-vary' }), []);
});

test('hot experts beside forward and backward are no host that launches late', () => {
  assert.deepEqual(stragglersOf({ scenario: 'expert-imbalance', ranks: 8, steps: 130, seed: 2, strength: 0.5 }), []);
});
