import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { formatProblem } from '../../detector/rules/problem.js';
import { isRulePath, type RuleText } from '../../detector/rules/rule-file.js';
import { type LoadedRules, loadRules } from '../../detector/rules/rule-set.js';
import { readRuleFile, readRuleFolder } from '../../detector/rules/sources/folder.js';
import { PicketError } from '../../protocol/errors.js';

/** Rule files of the given files and folders, each under the path that a person would type. */
export async function readRuleTexts(paths: readonly string[], wanted = isRulePath): Promise<RuleText[]> {
  const texts = new Map<string, RuleText>();
  for (const path of paths) {
    const isFolder = await kindOf(path);
    const found = isFolder
      ? (await readRuleFolder(path, wanted)).map((each) => ({ ...each, path: join(path, each.path) }))
      : [{ path, text: await readRuleFile(path) }];
    for (const each of found) texts.set(each.path, each);
  }
  return [...texts.values()];
}

async function kindOf(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch (cause) {
    throw new PicketError('not_found', 'no such file or folder', { file: path }, { cause });
  }
}

/** A rule set that can be used. Throws `bad_input` that names every problem of every file. */
export function usable({ set, problems, files }: LoadedRules, where: string): NonNullable<LoadedRules['set']> {
  const errors = problems.filter(({ level }) => level === 'error');
  if (!set) throw new PicketError('bad_input', `the rules cannot be used:\n${errors.map(formatProblem).join('\n')}`);
  if (files.length === 0 || set.rules.length === 0)
    throw new PicketError('bad_input', 'holds no rules', {
      file: where,
      remedy: 'give a folder with rule files (*.yml)',
    });
  return set;
}

/** Reads and checks the rules of a folder. */
export async function readRuleSet(path: string): Promise<NonNullable<LoadedRules['set']>> {
  return usable(loadRules(await readRuleTexts([path]), null), path);
}
