import type * as z from 'zod';
import { PicketError } from './errors.js';
import { fieldsAt, nearest } from './mistyped-names.js';
import { schemaMessage, valueAt } from './schema-messages.js';
import { type YamlProblem, YamlSource } from './yaml-source.js';

/** Of a line that cannot be read, so much is shown. */
const MAX_SHOWN_CHARS = 80;

/** Something wrong with a field; `advice` where more can be said than which file is an example. */
interface Mistake {
  readonly field: string;
  readonly line: number;
  readonly problem: string;
  readonly advice?: string | undefined;
}

/**
 * Parses a program's YAML configuration. Throws one `bad_config` naming file, line and field of every mistake; of a text that
 * is no YAML the place, what was read there and what to do.
 *
 * @param remedy what to do about it, such as which file is a complete example
 */
export function parseYamlConfig<S extends z.ZodType>(
  schema: S,
  text: string,
  file: string,
  remedy: string,
): z.infer<S> {
  const { source, problems } = YamlSource.parse(text, file, remedy);
  if (!source) throw syntaxError(text, problems[0] as YamlProblem);
  const parsed = schema.safeParse(source.value);
  if (parsed.success) return parsed.data;
  const mistakes = parsed.error.issues.flatMap((issue) => mistakesOf(issue, schema, source));
  const [first, ...others] = mistakes as [Mistake, ...Mistake[]];
  const more = others.map((each) => `line ${each.line} "${each.field}": ${inFull(each)}`).join('; ');
  const { line, field, problem, advice = remedy } = first;
  if (!more) throw new PicketError('bad_config', problem, { file, line, field, remedy: advice });
  throw new PicketError('bad_config', `${inFull(first)} (also ${more})`, { file, line, field, remedy });
}

/** The same error with file and line of the field that it names, where it names no other file. */
export function atYamlField(error: unknown, text: string, file: string): unknown {
  if (!(error instanceof PicketError) || error.place.file !== undefined || error.place.field === undefined)
    return error;
  const path = error.place.field.split('.');
  const { source } = YamlSource.parse(text, file, '');
  return error.at({ file, line: source?.keyAt(path).line });
}

function syntaxError(text: string, { file, line, col, message, remedy }: YamlProblem): PicketError {
  const read = (text.split('\n')[line - 1] ?? '').trim().slice(0, MAX_SHOWN_CHARS);
  const isShown = read !== '' && !/[\p{Cc}\ufffd]/u.test(read);
  return new PicketError('bad_config', isShown ? `${message}, reading \`${read}\`` : message, {
    file,
    line,
    column: col,
    remedy,
  });
}

function mistakesOf(issue: z.core.$ZodIssue, schema: z.ZodType, source: YamlSource): Mistake[] {
  if (issue.code === 'unrecognized_keys')
    return issue.keys.map((key) => {
      const path = [...issue.path, key];
      const meant = nearest(key, fieldsAt(schema, issue.path));
      const advice = meant === undefined ? undefined : `did you mean "${meant}"?`;
      return { field: path.join('.'), line: source.keyAt(path).line, problem: 'is not known', advice };
    });
  const { path } = issue;
  const { message, remedy } = schemaMessage(issue, valueAt(source.value, path));
  // An example shows best what belongs there.
  const advice = message === 'is missing' && issue.code === 'invalid_type' ? undefined : remedy;
  return [{ field: path.join('.'), line: source.at(path).line, problem: message, advice }];
}

const inFull = ({ problem, advice }: Mistake): string => (advice ? `${problem}; ${advice}` : problem);
