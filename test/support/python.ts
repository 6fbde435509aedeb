import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';

const INSTALLED = resolve('.cache/python/bin/python');

/** The Python for the tests that need one, as scripts/python.mjs finds it. */
export const PYTHON = process.env.PICKET_PYTHON ?? (existsSync(INSTALLED) ? INSTALLED : 'python3');

const has = (module: string): boolean =>
  process.env.CI === 'true' || spawnSync(PYTHON, ['-c', `import ${module}`], { stdio: 'ignore' }).status === 0;

/** For node:test's `skip`. With CI=true the tests run, and so fail, where the module cannot be had. */
export const skipWithout = (module: 'torch' | 'pytest' | 'pyarrow'): string | false =>
  has(module) ? false : `needs ${module}: run \`node scripts/setup.mjs test python\``;
