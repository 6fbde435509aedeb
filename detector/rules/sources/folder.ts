import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { PicketError } from '../../../protocol/errors.js';
import { MAX_FILE_CHARS } from '../../../protocol/yaml-source.js';
import { isRulePath, type RuleText } from '../rule-file.js';
import type { RuleSource } from './source.js';

/**
 * Reads the rule files in a folder and those below it, in order of path. Names that begin with a dot are left out: that
 * is where Kubernetes keeps the versions of a ConfigMap. Throws an error that names what cannot be read, and why.
 */
export async function readRuleFolder(
  folder: string,
  wanted: (path: string) => boolean = isRulePath,
): Promise<RuleText[]> {
  const paths = (await listFolder({ root: folder, wanted }, '', [])).sort();
  return Promise.all(paths.map(async (path) => ({ path, text: await readRuleFile(join(folder, path)) })));
}

/** Text of one rule file. Throws `not_found` or `bad_input`. */
export async function readRuleFile(file: string): Promise<string> {
  const found = await stat(file).catch((cause) => unreadable(file, cause));
  // A pipe would never end.
  if (!found.isFile()) throw new PicketError('bad_input', 'is no regular file', { file, remedy: 'give a file' });
  if (found.size > MAX_FILE_BYTES)
    throw new PicketError('too_large', `is larger than ${MAX_FILE_BYTES} bytes`, { file, remedy: 'split the file' });
  return readFile(file, 'utf8').catch((cause) => unreadable(file, cause));
}

/** Four bytes a character at most. */
const MAX_FILE_BYTES = 4 * MAX_FILE_CHARS;

function unreadable(
  file: string,
  cause: NodeJS.ErrnoException,
  remedy = 'give one that exists and may be read',
): never {
  throw new PicketError('not_found', `cannot be read (${cause.code})`, { file, remedy }, { cause });
}

interface Listing {
  readonly root: string;
  readonly wanted: (path: string) => boolean;
}

/** @param above identities of the folders that lead to this one: a link back to one of them would never end */
async function listFolder(listing: Listing, below: string, above: readonly string[]): Promise<string[]> {
  const folder = join(listing.root, below);
  const { dev, ino } = await stat(folder).catch((cause) => unreadable(folder, cause, 'give an existing folder'));
  const identity = `${dev}:${ino}`;
  if (above.includes(identity)) {
    const problem = 'leads back to a folder that it lies in';
    throw new PicketError('bad_input', problem, { file: folder, remedy: 'remove the link' });
  }
  const names = (await readdir(folder).catch((cause) => unreadable(folder, cause, 'give an existing folder'))).filter(
    (name) => !name.startsWith('.'),
  );
  const found = await Promise.all(
    names.map(async (name) => {
      const path = below ? `${below}/${name}` : name;
      // Not the entry's own type: links are followed. One that leads nowhere matters where it is named as a rule file.
      const target = await stat(join(listing.root, path)).catch(() => undefined);
      if (target?.isDirectory()) return listFolder(listing, path, [...above, identity]);
      return listing.wanted(path) ? [path] : [];
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
