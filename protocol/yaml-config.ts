import { LineCounter, parseDocument } from 'yaml';
import type * as z from 'zod';
import { PicketError } from './errors.js';

/**
 * Parses a program's YAML configuration. Throws one `bad_config` naming file, line and field of every mistake.
 *
 * @param remedy what to do about it, such as which file is a complete example
 */
export function parseYamlConfig<S extends z.ZodType>(
  schema: S,
  text: string,
  file: string,
  remedy: string,
): z.infer<S> {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys: true });
  const [syntax] = document.errors;
  if (syntax)
    throw new PicketError('bad_config', syntax.message.split('\n')[0] as string, {
      file,
      line: syntax.linePos?.[0].line,
    });
  const parsed = schema.safeParse(document.toJS() ?? {});
  if (parsed.success) return parsed.data;
  const lineOf = (path: readonly PropertyKey[]): number | undefined => {
    for (let depth = path.length; depth > 0; depth--) {
      const node = document.getIn(path.slice(0, depth), true) as { range?: [number, number, number] } | undefined;
      if (node?.range) return lines.linePos(node.range[0]).line;
    }
    return undefined;
  };
  const at = (path: readonly PropertyKey[], problem: string) => ({
    problem,
    line: lineOf(path),
    field: path.join('.'),
  });
  const [first, ...others] = parsed.error.issues.flatMap((issue) => {
    if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => at([...issue.path, key], 'is not known'));
    const missing = issue.code === 'invalid_type' && document.getIn(issue.path) === undefined;
    return [at(issue.path, missing ? 'is missing' : issue.message)];
  });
  const more = others.map(({ line, field, problem }) => `line ${line ?? '?'} "${field}": ${problem}`).join('; ');
  throw new PicketError('bad_config', `${first?.problem}${more ? ` (also ${more})` : ''}`, {
    file,
    line: first?.line,
    field: first?.field,
    remedy,
  });
}
