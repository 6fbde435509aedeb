import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { globMatches, globsCover, globsMatch, globsOf } from '../../../detector/rules/globs.js';

const name = fc.string({ unit: fc.constantFrom('a', 'b', '-', '.'), maxLength: 8 });
const glob = fc.string({ unit: fc.constantFrom('a', 'b', '*', '?', '.'), maxLength: 6 });

describe('globs', () => {
  it('match as a regular expression of the same meaning does', () => {
    fc.assert(
      fc.property(glob, name, (pattern, text) => {
        const regex = pattern.replaceAll('.', '\\.').replaceAll('?', '.').replaceAll('*', '.*');
        assert.equal(globMatches(pattern, text), new RegExp(`^${regex}$`).test(text));
      }),
      { numRuns: 2000 },
    );
  });

  it('take no longer than the name is long where a regular expression would never end', () => {
    const started = performance.now();
    assert.equal(globMatches(`${'*a'.repeat(60)}b`, 'a'.repeat(256)), false);
    assert.ok(performance.now() - started < 1000);
  });

  it('of a list need one that fits, and none behind a ! that does', () => {
    const globs = globsOf(['pretrain-*', 'sft-*', '!*-test']);
    assert.deepEqual(
      ['pretrain-7b', 'sft-1', 'rl-1', 'sft-test', ''].map((each) => globsMatch(globs, each)),
      [true, true, false, false, false],
    );
    assert.ok(globsMatch(globsOf('!a'), 'b'), 'with exclusions alone everything else fits');
    assert.equal(globsMatch(globsOf('vllm'), undefined), false, 'what is not known fits no name');
  });

  it('cover only what they certainly fit', () => {
    const names = fc.array(name, { minLength: 1, maxLength: 20 });
    fc.assert(
      fc.property(fc.array(glob, { maxLength: 3 }), fc.array(glob, { maxLength: 3 }), names, (wide, narrow, texts) => {
        if (!globsCover(globsOf(wide), globsOf(narrow))) return;
        for (const text of texts)
          if (globsMatch(globsOf(narrow), text))
            assert.ok(globsMatch(globsOf(wide), text), `${wide} ${narrow} ${text}`);
      }),
      { numRuns: 3000 },
    );
    assert.ok(globsCover(globsOf('pretrain-*'), globsOf(['pretrain-7b', 'pretrain-*-x'])));
    assert.ok(!globsCover(globsOf(['a-*', '!a-1']), globsOf('a-*')));
  });
});
