import { realpath } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { PicketError } from '../../../protocol/errors.js';
import { readRuleFolder } from './folder.js';
import type { RuleSource, RuleTexts } from './source.js';

/** git-sync may take away the tree that is being read as it publishes the next one. */
const ATTEMPTS = 3;
const HASH = /^[0-9a-f]{40}([0-9a-f]{24})?$/;

/**
 * The tree that git-sync publishes: a link that is flipped to a new worktree, whose name is the commit. The link is
 * resolved once for each reading, so that no reading sees two commits.
 * @param path of the rules within the tree
 */
export const gitSyncSource = (link: string, path: string): RuleSource => ({
  description: `git-sync link ${link}, folder ${path}`,
  isRemote: false,
  read: async () => {
    for (let attempt = 1; ; attempt++) {
      const tree = await resolveLink(link);
      try {
        return await readTree(tree, path);
      } catch (error) {
        if (attempt === ATTEMPTS || (await resolveLink(link)) === tree) throw error;
      }
    }
  },
});

async function readTree(tree: string, path: string): Promise<RuleTexts> {
  const name = basename(tree);
  return { commit: HASH.test(name) ? name : null, texts: await readRuleFolder(join(tree, path)) };
}

async function resolveLink(link: string): Promise<string> {
  try {
    return await realpath(link);
  } catch (cause) {
    const problem = `the link cannot be resolved (${(cause as NodeJS.ErrnoException).code})`;
    throw new PicketError('not_found', problem, { file: link, remedy: 'see whether git-sync runs' }, { cause });
  }
}
