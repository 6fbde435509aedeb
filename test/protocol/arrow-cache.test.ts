import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ArrowCache } from '../../protocol/arrow-cache.js';

const bytes = (...values: number[]) => Uint8Array.from(values);

/** A cache of the bytes themselves, and which of them had to be read. */
function counting(maxBytes: number, maxEntryBytes: number) {
  const cache = new ArrowCache<string>(maxBytes, maxEntryBytes);
  const reads: string[] = [];
  const get = (...values: number[]) =>
    cache.get(bytes(...values), () => {
      reads.push(values.join());
      return values.join();
    });
  return { get, reads };
}

test('equal bytes are read once, others for themselves', () => {
  const { get, reads } = counting(100, 10);
  for (let i = 0; i < 2; i++)
    for (const value of [[], [0], [0, 0], [0, 255], [255, 0]]) assert.equal(get(...value), value.join());
  assert.deepEqual(reads, ['', '0', '0,0', '0,255', '255,0']);
});

test('the longest unused goes first', () => {
  const { get, reads } = counting(3, 1);
  for (const value of [1, 2, 3, 1, 4, 1, 2]) get(value);
  assert.deepEqual(reads, ['1', '2', '3', '4', '2']);
});

test('what is too long is read each time and displaces nothing', () => {
  const { get, reads } = counting(3, 2);
  for (const value of [[1], [1, 2, 3], [1, 2, 3], [1]]) get(...value);
  assert.deepEqual(reads, ['1', '1,2,3', '1,2,3']);
});

test('bytes that cannot be read are not remembered', () => {
  const cache = new ArrowCache<string>(100, 10);
  const fail = () => {
    throw new Error('unreadable');
  };
  assert.throws(() => cache.get(bytes(1), fail), /unreadable/);
  assert.equal(
    cache.get(bytes(1), () => 'read'),
    'read',
  );
});
