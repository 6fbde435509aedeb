import { equal } from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { before, describe, it } from 'node:test';
import { make, program, skip } from './build.js';

// Each prints "ok NAME" for every case of its own and fails with the line of the broken check.
const PROGRAMS = [
  ...[
    'segment_test',
    'ring_test',
    'ring_stress',
    'fence_test',
    'lifecycle_test',
    'capture_test',
    'overhead_test',
    'budget_test',
    'gpu_check',
  ].map((name) => `test/${name}`),
  ...['ring_stress', 'fence_test', 'lifecycle_test'].map((name) => `thread/${name}`),
  ...['segment_test', 'ring_test', 'fence_test', 'lifecycle_test', 'capture_test', 'overhead_test', 'budget_test'].map(
    (name) => `address/${name}`,
  ),
];
/** These run against a stand-in driver. */
const env = { ...process.env, LD_LIBRARY_PATH: program('fake') };

describe('native test programs', { skip }, () => {
  before(() => make('tests', 'sanitized'));
  for (const name of PROGRAMS) {
    it(name, (context) => {
      const result = spawnSync(program(name), {
        encoding: 'utf8',
        timeout: 120_000,
        ...(/(capture|overhead)_test$/.test(name) ? { env } : {}),
      });
      equal(result.status, 0, `${result.stdout}${result.stderr}`);
      if (result.stdout.startsWith('skipped: ')) return context.skip(result.stdout.trim().slice('skipped: '.length));
      context.diagnostic(result.stdout.trim().split('\n').join('; '));
    });
  }
});
