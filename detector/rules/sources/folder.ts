import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { PicketError } from '../../../protocol/errors.js';
import { isRulePath, type RuleText } from '../rule-file.js';
import type { RuleSource } from './source.js';

/**
 * Reads the rule files in a folder and those below it, in order of path. Names that begin with a dot are left out: that
 * is where Kubernetes keeps the versions of a ConfigMap. Throws `not_found` for a folder that is not there.
 */
export async function readRuleFolder(
  folder: string,
  wanted: (path: string) => boolean = isRulePath,
): Promise<RuleText[]> {
  const paths = (await listFolder(folder, '')).filter(wanted).sort();
  return Promise.all(paths.map(async (path) => ({ path, text: await readFile(join(folder, path), 'utf8') })));
}

async function listFolder(root: string, below: string): Promise<string[]> {
  let entries: string[];
  try {
    entries = await readdir(join(root, below));
  } catch (cause) {
    const problem = `cannot be read (${(cause as NodeJS.ErrnoException).code})`;
    throw new PicketError(
      'not_found',
      problem,
      { file: join(root, below), remedy: 'give an existing folder' },
      { cause },
    );
  }
  const found = await Promise.all(
    entries
      .filter((name) => !name.startsWith('.'))
      .map(async (name) => {
        const path = below ? `${below}/${name}` : name;
        // Not the entry's own type: links are followed.
        return (await stat(join(root, path))).isDirectory() ? listFolder(root, path) : [path];
      }),
  );
  return found.flat();
}

/** A folder of rule files that somebody else keeps up to date. */
export const folderSource = (path: string): RuleSource => ({
  description: `folder ${path}`,
  isRemote: false,
  read: async () => ({ commit: null, texts: await readRuleFolder(path) }),
});
