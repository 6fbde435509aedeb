import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { MAX_NAME_CHARS } from '../../protocol/limits.js';
import { cleanName } from '../../protocol/names.js';

test('a kernel name of 1,956 characters is cut to the limit', () => {
  assert.equal(cleanName('k'.repeat(1956)), 'k'.repeat(MAX_NAME_CHARS));
});

test('control and direction characters stay', () => {
  assert.equal(cleanName('fwd\u202e\u0007'), 'fwd\u202e\u0007');
});

test('half a surrogate pair becomes U+FFFD, and cutting does not make one', () => {
  assert.equal(cleanName('a\ud800b'), 'a\ufffdb');
  assert.equal(cleanName(`${'k'.repeat(MAX_NAME_CHARS - 1)}😀`), 'k'.repeat(MAX_NAME_CHARS - 1));
});

test('every name survives UTF-8', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 600 }), (text) => {
      const name = cleanName(text);
      assert.equal(new TextDecoder('utf-8', { fatal: true }).decode(new TextEncoder().encode(name)), name);
    }),
  );
});
