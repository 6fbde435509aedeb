import { isDeepStrictEqual } from 'node:util';
import { Command, Option } from 'commander';
import { formatProblem, hasErrors } from '../../detector/rules/problem.js';
import type { Rule } from '../../detector/rules/rule.js';
import { type LoadedRules, loadRules } from '../../detector/rules/rule-set.js';
import { readRuleTexts } from './read.js';
import { loadRulesOf } from './refs.js';

interface RuleChange {
  readonly rule: string;
  readonly change: 'added' | 'removed' | 'changed';
  readonly fields: readonly { readonly field: string; readonly was: unknown; readonly is: unknown }[];
}

export function diffCommand(): Command {
  return new Command('diff')
    .description(
      'Shows which rules two Git commits or folders differ in, field by field; exit 1 where the newer ones have errors.',
    )
    .argument('<old>', 'commit, branch, tag or folder')
    .argument('[new]', 'commit, branch, tag or folder; default: --rules as it is now')
    .option('--rules <dir>', 'folder of the rules', 'rules')
    .addOption(new Option('--format <format>', 'output').choices(['text', 'json']).default('text'))
    .action(async (old: string, now: string | undefined, { rules, format }: { rules: string; format: string }) => {
      const was = await loadRulesOf(old, rules);
      const is = now === undefined ? loadRules(await readRuleTexts([rules]), null) : await loadRulesOf(now, rules);
      const changes = changesOf(was, is);
      console.log(format === 'json' ? JSON.stringify(changes, null, 2) : render(changes));
      for (const problem of is.problems) console.error(formatProblem(problem));
      if (hasErrors(is.problems)) process.exitCode = 1;
    });
}

function changesOf(was: LoadedRules, is: LoadedRules): RuleChange[] {
  const rulesOf = ({ files }: LoadedRules): Map<string, Rule> =>
    new Map(files.flatMap(({ rules }) => rules.map((rule) => [rule.id, rule])));
  const [before, after] = [rulesOf(was), rulesOf(is)];
  return [...new Set([...before.keys(), ...after.keys()])].sort().flatMap((rule): RuleChange[] => {
    const [old, now] = [before.get(rule), after.get(rule)];
    if (old?.revision === now?.revision) return [];
    const change = !old ? 'added' : !now ? 'removed' : 'changed';
    return [{ rule, change, fields: old && now ? fieldsOf(old.written, now.written) : [] }];
  });
}

/** Fields that differ, by their path; lists are compared whole. */
function fieldsOf(was: unknown, is: unknown, path = ''): RuleChange['fields'] {
  if (isDeepStrictEqual(was, is)) return [];
  if (!isFields(was) || !isFields(is)) return [{ field: path, was: was ?? null, is: is ?? null }];
  return [...new Set([...Object.keys(was), ...Object.keys(is)])].flatMap((name) =>
    fieldsOf(was[name], is[name], path ? `${path}.${name}` : name),
  );
}

const isFields = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function render(changes: readonly RuleChange[]): string {
  if (changes.length === 0) return 'No rule differs.';
  const text = (value: unknown): string => (value === null ? '(not set)' : JSON.stringify(value));
  return changes
    .flatMap(({ rule, change, fields }) => [
      `${change} ${rule}`,
      ...fields.map(({ field, was, is }) => `  ${field}: ${text(was)} -> ${text(is)}`),
    ])
    .join('\n');
}
