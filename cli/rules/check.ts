import { Command, Option } from 'commander';
import { lintRules } from '../../detector/rules/lint.js';
import { formatProblem, type RuleProblem } from '../../detector/rules/problem.js';
import { loadRules } from '../../detector/rules/rule-set.js';
import { INCIDENT_KINDS } from '../../protocol/incident.js';
import { readRuleTexts } from './read.js';

type Format = 'text' | 'json' | 'github';

export function checkCommand(): Command {
  return new Command('check')
    .description('Looks for mistakes in rule files; exit 1 where there are any.')
    .argument('[path...]', 'rule files, or folders of them (*.test.yml are tests, and left out)', ['rules'])
    .addOption(new Option('--format <format>', 'output').choices(['text', 'json', 'github']).default('text'))
    .action(async (paths: string[], { format }: { format: Format }) => {
      const report = checkRules(await readRuleTexts(paths), BigInt(Date.now()) * 1_000_000n);
      for (const line of linesOf(report, format)) console.log(line);
      if (report.problems.length > 0) process.exitCode = 1;
    });
}

interface Report {
  readonly files: number;
  readonly rules: number;
  readonly problems: readonly RuleProblem[];
  readonly kindsWithoutRule: readonly string[];
}

function checkRules(texts: Parameters<typeof loadRules>[0], now: bigint): Report {
  const { files, problems } = loadRules(texts, null);
  const rules = files.flatMap((file) => file.rules);
  const lint = lintRules(
    rules,
    files.flatMap((file) => file.switchedOff),
    now,
  );
  const known = new Set<string>(rules.filter(({ status }) => status !== 'disabled').map(({ kind }) => kind));
  const empty = texts.length === 0 ? [NO_FILES] : [];
  return {
    files: files.length,
    rules: rules.length,
    problems: [...empty, ...problems, ...lint],
    kindsWithoutRule: INCIDENT_KINDS.filter((kind) => !known.has(kind)),
  };
}

const NO_FILES: RuleProblem = {
  ...{ file: '.', line: 1, col: 1, level: 'error', check: 'files' },
  message: 'no rule files were found',
  remedy: 'name a file or a folder with *.yml files',
};

function linesOf(report: Report, format: Format): string[] {
  const { files, rules, problems, kindsWithoutRule } = report;
  if (format === 'json')
    return [JSON.stringify({ files, rules, problems, kinds_without_rule: kindsWithoutRule }, null, 2)];
  if (format === 'github') return problems.map(githubAnnotation);
  const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`;
  const errors = problems.filter(({ level }) => level === 'error').length;
  return [
    ...problems.map((problem) => `${formatProblem(problem)} [${problem.check}]`),
    ...(errors === 0 && kindsWithoutRule.length > 0
      ? [`note: no rule here reports ${kindsWithoutRule.join(', ')}`]
      : []),
    `${count(files, 'file')}, ${count(rules, 'rule')}: ${problems.length === 0 ? 'no problems' : `${count(errors, 'error')}, ${count(problems.length - errors, 'warning')}`}`,
  ];
}

/** A workflow command of GitHub Actions, which shows it beside the line. */
function githubAnnotation({ level, file, line, col, check, group, rule, message, remedy }: RuleProblem): string {
  const property = (text: string): string => data(text).replaceAll(':', '%3A').replaceAll(',', '%2C');
  const data = (text: string): string => text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
  const within = [...(group ? [`group "${group}"`] : []), ...(rule ? [`rule "${rule}"`] : [])].join(', ');
  const text = `${within ? `${within}: ` : ''}${message}; ${remedy}`;
  return `::${level} file=${property(file)},line=${line},col=${col},title=${property(check)}::${data(text)}`;
}
