import type * as z from 'zod';
import { fieldsAt, suggestion } from '../../protocol/mistyped-names.js';
import type { YamlSource } from '../../protocol/yaml-source.js';
import type { RuleProblem } from './problem.js';

type Issue = z.core.$ZodIssue;
type Where = Pick<RuleProblem, 'group' | 'rule'>;

/** What a schema objected to, with place and remedy. `path` is where the value that it looked at stands. */
export function schemaProblems(
  schema: z.ZodType,
  issues: readonly Issue[],
  source: YamlSource,
  path: readonly PropertyKey[],
  where: Where,
): RuleProblem[] {
  const { file, value } = source;
  return issues.flatMap((issue): RuleProblem[] => {
    const at = [...path, ...issue.path];
    const within = where.group === undefined && at[0] === 'groups' ? { group: groupName(value, at[1]) } : where;
    if (issue.code === 'unrecognized_keys')
      return issue.keys.map((key) => ({
        ...{ file, ...source.keyAt([...at, key]), ...within, level: 'error', check: 'schema' },
        message: `field "${key}" is not known`,
        remedy: suggestion(key, fieldsAt(schema, issue.path)),
      }));
    const isKey = issue.code === 'invalid_key';
    const { message, remedy } = describe(isKey ? (issue.issues[0] ?? issue) : issue);
    const last = at.filter((part) => typeof part === 'string').at(-1);
    const name = typeof at.at(-1) === 'number' ? `an entry of "${String(last)}"` : `"${String(last)}"`;
    return [
      {
        ...{ file, ...(isKey ? source.keyAt(at) : source.at(at)), ...within, level: 'error', check: 'schema' },
        message: last === undefined ? message : `${name} ${message}`,
        remedy,
      },
    ];
  });
}

function groupName(file: unknown, index: unknown): string | undefined {
  const name = (file as { groups?: { name?: unknown }[] }).groups?.[index as number]?.name;
  return typeof name === 'string' ? name : undefined;
}

function describe(issue: Issue): { message: string; remedy: string } {
  const [custom, advice] = issue.message.split('; ') as [string, string | undefined];
  if (advice !== undefined) return { message: custom, remedy: advice };
  switch (issue.code) {
    case 'invalid_type':
      if (issue.input === undefined && issue.message.endsWith('undefined'))
        return { message: 'is missing', remedy: `add it (${typeName(issue.expected)})` };
      if (issue.message.endsWith('null')) return { message: 'is empty', remedy: `give ${typeName(issue.expected)}` };
      return {
        message: `must be ${typeName(issue.expected)}`,
        remedy: REMEDIES[issue.expected] ?? `give ${typeName(issue.expected)}`,
      };
    case 'invalid_value':
      return issue.message.endsWith('undefined')
        ? { message: 'is missing', remedy: `add it: one of ${issue.values.join(', ')}` }
        : {
            message: 'is none of the values there are',
            remedy: `use ${issue.values.length > 1 ? 'one of ' : ''}${issue.values.join(', ')}`,
          };
    case 'too_small':
      return tooSmall(issue);
    case 'too_big':
      return { message: `must be at most ${issue.maximum}`, remedy: 'give less' };
    default:
      return { message: issue.message, remedy: 'see docs/rules.md' };
  }
}

function tooSmall({ origin, minimum }: Extract<Issue, { code: 'too_small' }>): { message: string; remedy: string } {
  if (origin === 'string' || origin === 'array')
    return { message: 'is empty', remedy: 'give a value, or leave the field out' };
  return { message: `must be at least ${minimum}`, remedy: 'give more' };
}

const TYPE_NAMES: Record<string, string> = {
  string: 'a text in quotes',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'a mapping of fields',
  record: 'a mapping of names to texts',
};
/** Where the name of the type says too little. */
const REMEDIES: Record<string, string> = { number: 'write a plain number, such as 0.05', int: 'write one such as 3' };
const typeName = (name: string): string => TYPE_NAMES[name] ?? name;
