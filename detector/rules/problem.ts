import { YamlSource } from '../../protocol/yaml-source.js';

/** Something wrong with a rule file, and what to do about it. */
export interface RuleProblem {
  readonly file: string;
  /** 1-based. */
  readonly line: number;
  readonly col: number;
  /** Where it is within a group or rule: their name and id, or `#2` where those are missing. */
  readonly group?: string | undefined;
  readonly rule?: string | undefined;
  /** Errors keep a file from loading; warnings are for `picket rules check`. */
  readonly level: 'error' | 'warning';
  /** Short name of what was checked. */
  readonly check: string;
  readonly message: string;
  readonly remedy: string;
}

/** `file:line:col: group "g", rule "r": message; remedy`. */
export function formatProblem({ file, line, col, group, rule, message, remedy }: RuleProblem): string {
  const within = [...(group ? [`group "${group}"`] : []), ...(rule ? [`rule "${rule}"`] : [])].join(', ');
  return `${file}:${line}:${col}: ${within ? `${within}: ` : ''}${message}; ${remedy}`;
}

export const hasErrors = (problems: readonly RuleProblem[]): boolean => problems.some(({ level }) => level === 'error');

/** A file of rules or of their tests; without a source the problems say why. */
export function parseRuleYaml(text: string, file: string): { source?: YamlSource; problems: RuleProblem[] } {
  const { problems, ...read } = YamlSource.parse(text, file, 'begin with "apiVersion: picket/v1"');
  return { ...read, problems: problems.map((problem) => ({ ...problem, level: 'error', check: 'yaml' })) };
}
