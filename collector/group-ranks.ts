/** More ranks than any job has: a name is not believed beyond it. */
const MAX_RANKS = 65_536;

/**
 * Global ranks that the name of a communicator tells, as the hook makes names: `<label>:<ranks>`, where ranks are `0-7`,
 * `0-56/8` (every 8th), `3,4,9`, or `3>4` for a channel. Undefined for names that tell none.
 */
export function ranksOfGroup(name: string): number[] | undefined {
  const text = /^[^:]*:([\d,>/-]+)$/.exec(name)?.[1];
  if (text === undefined) return undefined;
  const range = /^(\d+)-(\d+)(?:\/(\d+))?$/.exec(text);
  if (!range) return /^\d+([,>]\d+)*$/.test(text) ? text.split(/[,>]/).map(Number) : undefined;
  const [first, last, stride] = [Number(range[1]), Number(range[2]), Number(range[3] ?? 1)];
  const count = Math.floor((last - first) / stride) + 1;
  if (!(stride > 0 && count > 0 && count <= MAX_RANKS)) return undefined;
  return Array.from({ length: count }, (_, i) => first + i * stride);
}
