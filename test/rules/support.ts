import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import type { TestContext } from 'node:test';

const PROGRAM = resolve(import.meta.dirname, '../../cli/main.js');
export const EXCERPT = resolve('fixtures/h200-tp2-excerpt');

export interface Ran {
  readonly exit: number | null;
  readonly out: string;
  readonly err: string;
}

/** Runs `picket …` in a folder. */
export function picket(args: readonly string[], cwd = '.'): Ran {
  const { status, stdout, stderr } = spawnSync(process.execPath, [PROGRAM, ...args], { cwd, encoding: 'utf8' });
  return { exit: status, out: stdout, err: stderr };
}

/** A folder of its own with these files. */
export function folderOf(t: Pick<TestContext, 'after'>, files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'picket-rules-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}
