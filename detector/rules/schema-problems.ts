import type * as z from 'zod';
import { fieldsAt, suggestion } from '../../protocol/mistyped-names.js';
import { schemaMessage, valueAt } from '../../protocol/schema-messages.js';
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
    const { message, remedy = 'see docs/rules.md' } = schemaMessage(
      isKey ? (issue.issues[0] ?? issue) : issue,
      isKey ? at.at(-1) : valueAt(value, at),
    );
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
