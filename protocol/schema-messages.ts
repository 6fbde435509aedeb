import type * as z from 'zod';
import { nearest } from './mistyped-names.js';

type Issue = z.core.$ZodIssue;

/** What is wrong with a value, for people, and what to do about it where more is known than `remedy`. */
export interface SchemaMessage {
  readonly message: string;
  readonly remedy: string | undefined;
}

/**
 * What a schema objected to. A message of its own, of the form `problem; remedy`, is told as both.
 * @param value that it looked at; undefined: it is missing
 */
export function schemaMessage(issue: Issue, value: unknown): SchemaMessage {
  const [, custom, advice] = /^(.*?); (.*)$/s.exec(issue.message) ?? [];
  if (custom !== undefined) return { message: custom, remedy: advice };
  switch (issue.code) {
    case 'invalid_type':
      return wrongType(TYPES[issue.expected] ?? { name: issue.expected, example: 'one' }, value);
    case 'invalid_value':
      return noneOf(issue.values.map(String), value);
    case 'invalid_union': {
      // Of a union by a field that says which of its schemas holds.
      const values = [...issue.message.matchAll(/'([^']+)'/g)].map(([, name]) => name as string);
      if (issue.discriminator === undefined || values.length === 0)
        return { message: issue.message, remedy: undefined };
      return noneOf(
        values.filter((name) => name !== 'undefined'),
        value,
      );
    }
    case 'too_small':
      return issue.origin === 'string' || issue.origin === 'array'
        ? { message: 'is empty', remedy: 'give a value, or leave the field out' }
        : { message: `must be ${issue.inclusive ? 'at least' : 'more than'} ${issue.minimum}`, remedy: 'give more' };
    case 'too_big':
      return {
        message: `must be ${issue.inclusive ? 'at most' : 'less than'} ${issue.maximum}${unitOf(issue.origin)}`,
        remedy: 'give less',
      };
    default:
      return { message: issue.message, remedy: undefined };
  }
}

/** Of what a text or a list has too many. */
const unitOf = (origin: string): string => ({ string: ' characters', array: ' entries' })[origin] ?? '';

function wrongType({ name, example }: TypeWords, value: unknown): SchemaMessage {
  if (value === undefined) return { message: 'is missing', remedy: `add it (${name})` };
  if (value === null) return { message: 'is empty', remedy: `give ${name}` };
  return { message: `must be ${name}`, remedy: `write ${example}` };
}

function noneOf(values: readonly string[], value: unknown): SchemaMessage {
  if (value === undefined) return { message: 'is missing', remedy: `add it: one of ${values.join(', ')}` };
  const meant = typeof value === 'string' ? nearest(value, values) : undefined;
  const known = `use ${values.length > 1 ? 'one of ' : ''}${values.join(', ')}`;
  const remedy = meant === undefined ? known : `did you mean "${meant}"? ${known}`;
  return { message: 'is none of the values there are', remedy };
}

interface TypeWords {
  readonly name: string;
  readonly example: string;
}

const TYPES: Readonly<Record<string, TypeWords>> = {
  string: { name: 'a text in quotes', example: '"it" so' },
  number: { name: 'a number', example: 'a plain number, such as 5 or 0.05' },
  int: { name: 'a whole number', example: 'one such as 3' },
  boolean: { name: 'true or false', example: 'one of them' },
  array: { name: 'a list', example: '[a, b]' },
  object: { name: 'a mapping of fields', example: '{field: value}, or a field a line' },
  record: { name: 'a mapping of names to texts', example: '{name: text}' },
};

/** The value at a path; undefined: it is missing. One that stands for a list of itself is its entries too. */
export const valueAt = (value: unknown, path: readonly PropertyKey[]): unknown =>
  path.reduce(
    (at, name) => (typeof at === 'string' ? at : (at as Record<PropertyKey, unknown> | null | undefined)?.[name]),
    value,
  );
