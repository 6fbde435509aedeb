import { equal } from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { before, describe, it } from 'node:test';
import { make, program, skip } from './build.js';

const GENERATED = {
  ts: 'native/ts/layout.generated.ts',
  py: 'native/hook/picket_hook/layout_generated.py',
};

describe('generated layouts', { skip }, () => {
  before(() => make('build/emit_layout'));
  for (const [language, file] of Object.entries(GENERATED)) {
    it(`${file} is what the header says now`, () => {
      const emitted = spawnSync(program('emit_layout'), [language], { encoding: 'utf8' });
      equal(emitted.status, 0);
      equal(readFileSync(file, 'utf8'), emitted.stdout, 'stale: run make -C native layout');
    });
  }

  it('the header is also C11', () => {
    const header = 'native/include/picket_fence.h';
    const args = ['-std=c11', '-Wall', '-Wextra', '-Werror', '-pedantic', '-fsyntax-only', '-x', 'c', header];
    const result = spawnSync('gcc', args, { encoding: 'utf8' });
    equal(result.status, 0, result.stderr);
  });
});
