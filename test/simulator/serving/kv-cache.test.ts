import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type Holding, KvCache } from '../../../simulator/serving/kv-cache.js';

const holding = (): Holding => ({ shared: [], blocks: 0 });

test('tokens take whole blocks of 16, and what does not fit is refused and changes nothing', () => {
  const cache = new KvCache(160);
  const one = holding();
  assert.ok(cache.grow(one, 17));
  assert.equal(one.blocks, 2);
  assert.equal(cache.usage, 0.2);
  const other = holding();
  assert.ok(!cache.grow(other, 129));
  assert.deepEqual(other, holding());
  assert.ok(cache.grow(other, 128));
  cache.release(one);
  assert.equal(cache.usage, 0.8);
});

test('a finished prompt is found again until its room is needed, the longest unused going first', () => {
  const cache = new KvCache(512 * 4);
  const fill = (prefix: readonly number[]): void => {
    const own = holding();
    assert.ok(cache.grow(own, prefix.length * 512));
    cache.publish(own, prefix, prefix.length * 512);
    cache.release(own);
  };
  fill([1, 2]);
  fill([3]);
  assert.equal(cache.usage, 0);
  const reader = holding();
  assert.equal(cache.share(reader, [1, 2, 9], 10_000), 1024);
  assert.equal(cache.usage, 0.5);
  cache.release(reader);
  const large = holding();
  assert.ok(cache.grow(large, 1024));
  const found = (prefix: readonly number[]): number => {
    const probe = holding();
    const tokens = cache.share(probe, prefix, 10_000);
    cache.release(probe);
    return tokens;
  };
  assert.deepEqual([found([1, 2]), found([3])], [1024, 0]);
  assert.equal(cache.share(holding(), [1, 2], 1023), 512, 'no more than the limit');
});

test('nothing is lost or made: what sequences hold is the usage, and released it is free again', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.record({
          who: fc.nat(3),
          tokens: fc.nat(3000),
          does: fc.constantFrom('grow', 'share', 'publish', 'release'),
        }),
        {
          maxLength: 60,
        },
      ),
      (actions) => {
        const cache = new KvCache(512 * 8);
        const prefixes = [[1, 2, 3], [1, 2, 4], [1, 5], [6]];
        const holdings = prefixes.map(() => ({ ...holding(), computed: 0 }));
        for (const { who, tokens, does } of actions) {
          const own = holdings[who] as (typeof holdings)[number];
          const prefix = prefixes[who] as number[];
          if (does === 'grow' && cache.grow(own, Math.max(own.computed, tokens)))
            own.computed = Math.max(own.computed, tokens);
          if (does === 'share' && own.blocks === 0 && own.shared.length === 0)
            own.computed = cache.share(own, prefix, 10_000);
          if (does === 'publish') cache.publish(own, prefix, own.computed);
          if (does === 'release') {
            cache.release(own);
            own.computed = 0;
          }
          const shared = new Set(holdings.flatMap((one) => one.shared));
          const blocks = holdings.reduce((sum, one) => sum + one.blocks, 0) + 32 * shared.size;
          assert.equal(cache.usage, blocks / 256);
          assert.ok(cache.usage <= 1);
          assert.ok(holdings.every((one) => one.blocks >= 0));
        }
        for (const own of holdings) cache.release(own);
        assert.equal(cache.usage, 0);
        assert.ok(cache.grow(holding(), 512 * 8), 'all of it can be had again');
      },
    ),
  );
});
