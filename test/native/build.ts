import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { resolve } from 'node:path';

const NATIVE = resolve(process.cwd(), 'native');

function has(program: string): boolean {
  return spawnSync(program, ['--version'], { stdio: 'ignore' }).status === 0;
}

/** False, or why native code cannot be built here: for node:test's `skip`. */
export const skip: string | false = ['g++', 'make', 'flock'].every(has) ? false : 'needs g++, make and flock';

/** Brings make targets of native/ up to date, one process at a time, as test files run in parallel. */
export function make(...targets: string[]): void {
  if (skip) return;
  mkdirSync(resolve(NATIVE, 'build'), { recursive: true });
  const lock = resolve(NATIVE, 'build/.lock');
  const result = spawnSync('flock', [lock, 'make', '-s', '-C', NATIVE, ...targets], { encoding: 'utf8' });
  if (result.status !== 0) throw new Error(`make ${targets.join(' ')} failed:\n${result.stdout}${result.stderr}`);
}

/** A program under native/build. */
export const program = (name: string): string => resolve(NATIVE, 'build', name);
