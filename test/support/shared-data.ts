import { existsSync } from 'node:fs';
import { resolve } from 'node:path';

/** Real traces that are not part of the repository: tests that read them are skipped by name where they are absent. */
export function sharedData(name: string): { path: string; skip: string | false } {
  const path = resolve(process.cwd(), '../shared/data', name);
  return { path, skip: existsSync(path) ? false : `needs ../shared/data/${name}` };
}
