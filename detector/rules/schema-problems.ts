import type * as z from 'zod';
import type { RuleProblem } from './problem.js';
import type { YamlSource } from './yaml-source.js';

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

/** Names of the fields that a schema knows at a path. */
function fieldsAt(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  let at: unknown = schema;
  for (const name of [...path, undefined]) {
    at = unwrapped(at);
    if (name === undefined) break;
    const { shape, element } = at as { shape?: Record<PropertyKey, unknown>; element?: unknown };
    at = shape ? shape[name] : element;
  }
  return Object.keys((at as { shape?: object } | undefined)?.shape ?? {});
}

/** The schema within optional, default and union ones. */
function unwrapped(schema: unknown): unknown {
  const { def } = (schema ?? {}) as { def?: { innerType?: unknown; options?: unknown[] } };
  if (def?.innerType) return unwrapped(def.innerType);
  return def?.options ? def.options.map(unwrapped).find((option) => (option as { shape?: object })?.shape) : schema;
}

function suggestion(given: string, known: readonly string[]): string {
  const near = known
    .map((name) => ({ name, edits: editDistance(given.toLowerCase(), name.toLowerCase()) }))
    .sort((a, b) => a.edits - b.edits)[0];
  if (near && near.edits <= Math.max(1, given.length / 3)) return `did you mean "${near.name}"?`;
  return known.length > 0 ? `known are ${known.join(', ')}` : 'remove it';
}

/** Levenshtein's: insertions, deletions and replacements. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++)
      next[j] = Math.min(
        (row[j] as number) + 1,
        (next[j - 1] as number) + 1,
        (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1),
      );
    row = next;
  }
  return row[b.length] as number;
}
