import { existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

/**
 * Makes a folder and those above it. Node's own way to do that never returns where a file system says ENOENT to whoever would
 * make something in it, as /proc does. Throws the system's error.
 */
export function makeFolder(path: string): void {
  const absent: string[] = [];
  for (let at = resolve(path); !existsSync(at); at = dirname(at)) absent.push(at);
  for (const each of absent.reverse())
    try {
      mkdirSync(each);
    } catch (error) {
      // Another process was first.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  if (!statSync(path).isDirectory())
    throw Object.assign(new Error(`ENOTDIR: not a directory, mkdir '${path}'`), { code: 'ENOTDIR' });
}
