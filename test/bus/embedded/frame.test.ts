import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { decodeFrame, encodeFrame, frameAt } from '../../../bus/embedded/frame.js';

const message = fc.record({
  key: fc.string({ unit: 'grapheme' }),
  value: fc.uint8Array({ maxLength: 200 }),
  headers: fc.dictionary(
    fc.string({ unit: 'grapheme', minLength: 1 }).filter((name) => name !== '__proto__'),
    fc.string(),
    {
      maxKeys: 4,
      noNullPrototype: true,
    },
  ),
});

test('a frame holds its record, wherever it lies in a buffer', () => {
  fc.assert(
    fc.property(message, fc.bigInt(0n, 2n ** 63n - 1n), fc.nat(50), (sent, offset, before) => {
      const frame = encodeFrame(sent, offset, 1_700_000_000_000);
      const buffer = Buffer.concat([Buffer.alloc(before), frame, Buffer.alloc(7)]);
      assert.deepEqual(frameAt(buffer, before), { state: 'whole', bytes: frame.length });
      const { value, ...rest } = decodeFrame(buffer, before);
      assert.deepEqual({ ...rest, value: [...value] }, { ...sent, offset, value: [...sent.value] });
    }),
  );
});

test('no frame with a byte changed counts as whole, no part of one as more than partial', () => {
  fc.assert(
    fc.property(message, fc.nat(), fc.integer({ min: 1, max: 255 }), (sent, where, change) => {
      const frame = encodeFrame(sent, 5n, 0);
      const at = where % frame.length;
      assert.deepEqual(frameAt(frame.subarray(0, at), 0).state, 'partial');
      frame[at] = (frame[at] as number) ^ change;
      assert.notEqual(frameAt(frame, 0).state, 'whole');
    }),
  );
});
