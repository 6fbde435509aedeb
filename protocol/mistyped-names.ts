import type * as z from 'zod';

/** Names of the fields that a schema knows at a path. */
export function fieldsAt(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
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

/** What to do about a name that is not known: `did you mean "x"?`, or which ones are. */
export function suggestion(given: string, known: readonly string[]): string {
  const near = nearest(given, known);
  if (near !== undefined) return `did you mean "${near}"?`;
  return known.length > 0 ? `known are ${known.join(', ')}` : 'remove it';
}

/** The known name that was meant: the only one that begins so, or one of which up to a third of the letters is mistyped. */
export function nearest(given: string, known: readonly string[]): string | undefined {
  const begun = known.filter((name) => given.length > 2 && name.startsWith(given.toLowerCase()));
  if (begun.length === 1) return begun[0];
  const near = known
    .map((name) => ({ name, edits: editDistance(given.toLowerCase(), name.toLowerCase()) }))
    .sort((a, b) => a.edits - b.edits)[0];
  return near && near.edits <= Math.max(1, given.length / 3) ? near.name : undefined;
}

/** Optimal string alignment: insertions, deletions, replacements and swaps of neighbours. */
function editDistance(a: string, b: string): number {
  const rows = [Array.from({ length: b.length + 1 }, (_, i) => i)];
  const at = (i: number, j: number): number => rows[i]?.[j] ?? Number.POSITIVE_INFINITY;
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    rows.push(row);
    for (let j = 1; j <= b.length; j++) {
      const replaced = at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const swapped = a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? at(i - 2, j - 2) + 1 : replaced;
      row.push(Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, replaced, swapped));
    }
  }
  return at(a.length, b.length);
}
