import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { KvCache } from '../../../simulator/serving/kv-cache.js';
import { type Batch, Scheduler, type SchedulerOptions } from '../../../simulator/serving/scheduler.js';

const options = { maxTokens: 256, maxRunning: 8, reserves: false };
const request = (id: string, promptTokens: number, outputTokens: number, prefix: number[] = []) => ({
  ...{ id, arrivalNs: 0, promptTokens, outputTokens, prefix },
});

function serve(
  requests: ReturnType<typeof request>[],
  tokens: number,
  more: Partial<SchedulerOptions> = {},
): { batches: Batch[]; scheduler: Scheduler } {
  const scheduler = new Scheduler({ ...options, ...more }, new KvCache(tokens));
  for (const one of requests) scheduler.add(one);
  const batches: Batch[] = [];
  for (let batch = scheduler.step(); batch; batch = scheduler.step()) {
    batches.push(batch);
    assert.ok(batches.length < 100_000, 'it ends');
  }
  return { batches, scheduler };
}

test('a prompt is computed in chunks, each output token takes one more step', () => {
  const { batches } = serve([request('a', 600, 4)], 10_000);
  assert.deepEqual(
    batches.map(({ prefillTokens, decodeTokens }) => [prefillTokens, decodeTokens]),
    [
      [256, 0],
      [256, 0],
      [88, 0],
      [0, 1],
      [0, 1],
      [0, 1],
    ],
  );
  assert.deepEqual(
    batches.map((batch) => batch.contextTokens),
    [256, 512, 600, 601, 602, 603],
  );
  const whole = serve([request('a', 600, 2)], 10_000, { maxTokens: Number.POSITIVE_INFINITY }).batches;
  assert.deepEqual(
    whole.map(({ prefillTokens, prefillPairs }) => [prefillTokens, prefillPairs]),
    [
      [600, 180_000],
      [0, 0],
    ],
  );
});

test('decodes go on beside a chunk, which gets what they leave', () => {
  const { batches } = serve([request('a', 10, 5), request('b', 600, 1)], 10_000);
  assert.deepEqual(
    batches.map(({ prefillTokens, decodeTokens, request: id }) => [prefillTokens, decodeTokens, id]),
    [
      [256, 0, 'b'],
      [255, 1, 'b'],
      [99, 1, 'b'],
      [0, 1, ''],
      [0, 1, ''],
    ],
  );
});

test('what was computed before is found in the prefix cache, and not computed again', () => {
  const { batches } = serve([request('a', 1200, 1, [1, 2]), request('b', 1200, 1, [1, 7])], 100_000, { maxRunning: 1 });
  assert.deepEqual(
    batches.map((batch) => batch.cachedTokens).filter((tokens) => tokens > 0),
    [512],
  );
  assert.equal(
    batches.reduce((sum, batch) => sum + batch.prefillTokens, 0),
    2400 - 512,
  );
  assert.equal(
    batches.reduce((sum, batch) => sum + batch.recomputedTokens, 0),
    0,
  );
});

const anyRequests = fc.array(fc.tuple(fc.integer({ min: 1, max: 900 }), fc.integer({ min: 1, max: 200 })), {
  minLength: 1,
  maxLength: 20,
});

test('tokens in are tokens out: prompts, outputs and what is computed again add up, whatever the cache', () => {
  fc.assert(
    fc.property(anyRequests, fc.integer({ min: 2500, max: 20_000 }), fc.boolean(), (sizes, cache, chunked) => {
      const requests = sizes.map(([prompt, output], i) => request(`r${i}`, prompt, output));
      const more = chunked ? {} : { maxTokens: Number.POSITIVE_INFINITY };
      const { batches, scheduler } = serve(requests, cache, more);
      const sum = (of: (batch: Batch) => number): number => batches.reduce((total, batch) => total + of(batch), 0);
      const wanted = sizes.reduce((total, [prompt, output]) => total + prompt + output - 1, 0);
      assert.equal(
        sum((batch) => batch.prefillTokens + batch.decodeTokens) - sum((batch) => batch.recomputedTokens),
        wanted,
      );
      assert.deepEqual([scheduler.running, scheduler.waiting, scheduler.usage], [0, 0, 0]);
      for (const batch of batches) if (chunked) assert.ok(batch.prefillTokens + batch.decodeTokens <= 256);
    }),
  );
});

test('a cache too small preempts and computes again; one that reserves never does', () => {
  const requests = Array.from({ length: 12 }, (_, i) => request(`r${i}`, 300, 150));
  const small = serve(requests, 2600).batches;
  const preempted = small.reduce((sum, batch) => sum + batch.preempted, 0);
  const again = small.reduce((sum, batch) => sum + batch.recomputedTokens, 0);
  assert.ok(preempted > 0 && again > 200 * preempted, `${preempted} ${again}`);
  const reserved = serve(requests, 2600, { reserves: true }).batches;
  assert.equal(
    reserved.reduce((sum, batch) => sum + batch.preempted + batch.recomputedTokens, 0),
    0,
  );
});

test('a prompt longer than half the cache is cut, so that it can be served', () => {
  const { batches } = serve([request('a', 5000, 3000)], 2000);
  assert.equal(
    batches.reduce((sum, batch) => sum + batch.prefillTokens, 0),
    1000,
  );
});
