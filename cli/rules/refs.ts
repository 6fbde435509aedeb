import { stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import type { RuleText } from '../../detector/rules/rule-file.js';
import { type LoadedRules, loadRules, type RuleSet } from '../../detector/rules/rule-set.js';
import { git, readCommit, resolveCommit } from '../../detector/rules/sources/git.js';
import { PicketError } from '../../protocol/errors.js';
import { readRuleTexts, usable } from './read.js';

/** The rules of a folder as they are in a Git commit of the repository that the folder is in. */
export async function readRuleSetAt(ref: string, folder: string): Promise<RuleSet> {
  const { texts, commit } = await readTextsAt(ref, folder);
  return usable(loadRules(texts, commit), `${ref}:${folder}`);
}

/** A rule set of a commit where `refOrFolder` names one, else of the folder. */
export async function readRuleSetOf(refOrFolder: string, folder: string): Promise<RuleSet> {
  return (await isFolder(refOrFolder))
    ? usable(loadRules(await readRuleTexts([refOrFolder]), null), refOrFolder)
    : readRuleSetAt(refOrFolder, folder);
}

/** As it is read, whether it can be used or not. */
export async function loadRulesOf(refOrFolder: string, folder: string): Promise<LoadedRules> {
  if (await isFolder(refOrFolder)) return loadRules(await readRuleTexts([refOrFolder]), null);
  const { texts, commit } = await readTextsAt(refOrFolder, folder);
  return loadRules(texts, commit);
}

const isFolder = (path: string): Promise<boolean> =>
  stat(path).then(
    (entry) => entry.isDirectory(),
    () => false,
  );

async function readTextsAt(ref: string, folder: string): Promise<{ texts: RuleText[]; commit: string }> {
  // The folder may be gone from the worktree, and is asked for in the commit only.
  const exists = await isFolder(folder);
  const options = { dir: exists ? folder : dirname(folder), env: process.env };
  const prefix = await prefixOf(options);
  const commit = await resolveCommit(ref, options);
  return { commit, texts: await readCommit(commit, exists ? prefix : `${prefix}${basename(folder)}`, options) };
}

async function prefixOf(options: Parameters<typeof git>[1]): Promise<string> {
  try {
    return (await git(['rev-parse', '--show-prefix'], options)).toString().trim();
  } catch (cause) {
    throw new PicketError(
      'bad_input',
      'is in no Git repository',
      { file: options.dir, remedy: 'compare with another folder instead of a commit' },
      { cause },
    );
  }
}
