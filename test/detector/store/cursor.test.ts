import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { decodeCursor, encodeCursor } from '../../../detector/store/cursor.js';
import { PicketError } from '../../../protocol/errors.js';

const KEY = new Uint8Array(32).fill(7);
const isBadInput = (error: unknown) => error instanceof PicketError && error.code === 'bad_input';

test('a cursor gives back its position', () => {
  fc.assert(
    fc.property(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n), fc.string({ unit: 'grapheme' }), (startedNs, id) => {
      const cursor = encodeCursor(KEY, { rank: [1] }, { startedNs, id });
      assert.deepEqual(decodeCursor(KEY, { rank: [1] }, cursor), { startedNs, id });
    }),
  );
});

test('the order in which values of a filter are given does not matter', () => {
  const cursor = encodeCursor(KEY, { status: ['open', 'resolved'], rank: [10, 9] }, { startedNs: 1n, id: 'a' });
  const filter = { rank: [9, 10, 9], status: ['resolved', 'open'] } as const;
  assert.equal(decodeCursor(KEY, filter, cursor).id, 'a');
});

test('another filter, another key or any change makes it invalid', () => {
  const cursor = encodeCursor(KEY, { since: '2026-01-01T00:00:00Z' }, { startedNs: 12n, id: 'abc' });
  assert.throws(() => decodeCursor(KEY, { until: '2026-01-01T00:00:00Z' }, cursor), isBadInput);
  const filter = { since: '2026-01-01T00:00:00Z' };
  assert.throws(() => decodeCursor(new Uint8Array(32), filter, cursor), isBadInput);
  const bytes = cursor.split('.').map((part) => Buffer.from(part, 'base64url'));
  for (const [part, buffer] of bytes.entries())
    for (let bit = 0; bit < 8 * buffer.length; bit++) {
      const changed = bytes.map((each) => Buffer.from(each));
      const target = changed[part] as Buffer;
      target[bit >> 3] = (target[bit >> 3] as number) ^ (1 << (bit & 7));
      const text = changed.map((each) => each.toString('base64url')).join('.');
      assert.throws(() => decodeCursor(KEY, filter, text), isBadInput);
    }
});

test('any other text is bad input and nothing worse', () => {
  fc.assert(fc.property(fc.string(), (text) => assert.throws(() => decodeCursor(KEY, {}, text), isBadInput)));
});
