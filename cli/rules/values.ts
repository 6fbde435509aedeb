/** Beyond this many values a series is a slip of the pen. */
const MAX_VALUES = 1_000_000;
const NUMBER = String.raw`-?\d+(?:\.\d+)?(?:e-?\d+)?`;
const TERM = new RegExp(`^(?:(${NUMBER})(?:([+-]\\d+(?:\\.\\d+)?)?x(\\d{1,7}))?|_(?:x(\\d{1,7}))?)$`);

/**
 * Expands a series as promtool writes it, one value a step: `1 2`, `1+0.5x3` (1 1.5 2 2.5), `10x49` (10 fifty times: the
 * first and 49 more), `_` and `_x9` (one and nine missing values, NaN). Undefined for anything else.
 */
export function expandValues(text: string): number[] | undefined {
  const values: number[] = [];
  for (const term of text.trim().split(/\s+/)) {
    const match = TERM.exec(term);
    if (!match) return undefined;
    const [, first, change = '0', more = '0', missing = '1'] = match;
    if (first === undefined) for (let i = 0; i < Number(missing); i++) values.push(Number.NaN);
    else for (let i = 0; i <= Number(more); i++) values.push(Number(first) + i * Number(change));
    if (values.length > MAX_VALUES) return undefined;
  }
  return values;
}
