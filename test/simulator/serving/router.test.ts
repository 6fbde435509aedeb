import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Fault } from '../../../simulator/faults.js';
import { Random } from '../../../simulator/random.js';
import { Router } from '../../../simulator/serving/router.js';

const fault: Fault = {
  ...{ effect: 'router', ranks: new Set([4, 5]), onset: 10, end: 100, strength: 0.5 },
  truth: { job: 'j', kind: 'sched_imbalance', cause: 'workload', subject: {}, onset_step: 10, strength: 0.5 },
};

/** Shares of 20,000 requests by replica; `grow`: requests stay. */
function shares(router: Router, step: number, grow: boolean): number[] {
  const held = [0, 0, 0, 0];
  const got = [0, 0, 0, 0];
  for (let i = 0; i < 20_000; i++) {
    const replica = router.route(held, 1e9, step);
    got[replica] = (got[replica] as number) + 1;
    if (grow) held[replica] = (held[replica] as number) + 1;
  }
  return got.map((count) => count / 5000);
}

test('the least loaded replica gets the next request', () => {
  const router = new Router(Random.stream(1, 'r'), undefined, [fault], 2);
  assert.equal(router.route([3, 1, 2, 5], 1e9, 0), 1);
  assert.deepEqual(shares(router, 0, true), [1, 1, 1, 1]);
  assert.equal(new Router(Random.stream(1, 'r'), undefined, [], 1).route([7], 0, 0), 0);
});

test('a favoured replica gets the strength more than its share, the others what is left', () => {
  const found = shares(new Router(Random.stream(1, 'r'), undefined, [fault], 2), 10, false);
  for (const [replica, share] of found.entries())
    assert.ok(Math.abs(share - (replica === 2 ? 1.5 : 1 - 0.5 / 3)) < 0.05, `${found}`);
});

test('skewed routing is 6 to 4, and changes sides; at the start all requests go to the first replica', () => {
  const skewed = new Router(Random.stream(1, 'r'), 'skewed', [], 1);
  for (const [step, first] of [
    [0, 1.2],
    [100, 0.8],
  ] as const)
    for (const [replica, share] of shares(skewed, step, true).entries())
      assert.ok(Math.abs(share - (replica % 2 === 0 ? first : 2 - first)) < 0.01);
  const burst = new Router(Random.stream(1, 'r'), 'burst', [], 1);
  assert.equal(burst.route([40, 0], 199e6, 3), 0);
  assert.equal(burst.route([40, 0], 201e6, 3), 1);
});
