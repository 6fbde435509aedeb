/**
 * Does a name fit a glob? `*` is any characters, `?` any one. Linear in the name for each star: names come from outside,
 * and a regular expression could be made to run for ever.
 */
export function globMatches(glob: string, name: string): boolean {
  if (glob === '*') return true;
  let [g, n, star, resume] = [0, 0, -1, 0];
  while (n < name.length) {
    if (glob[g] === '*') [star, resume] = [g++, n];
    else if (g < glob.length && (glob[g] === '?' || glob[g] === name[n])) [g, n] = [g + 1, n + 1];
    else if (star >= 0) [g, n] = [star + 1, ++resume];
    else return false;
  }
  while (glob[g] === '*') g++;
  return g === glob.length;
}

/** Globs of which one must fit; those that begin with `!` must not. */
export interface Globs {
  readonly include: readonly string[];
  readonly exclude: readonly string[];
}

export function globsOf(given: string | readonly string[]): Globs {
  const all = typeof given === 'string' ? [given] : given;
  return {
    include: all.filter((glob) => !glob.startsWith('!')),
    exclude: all.filter((glob) => glob.startsWith('!')).map((glob) => glob.slice(1)),
  };
}

/** An absent name fits nothing but `*`. */
export function globsMatch({ include, exclude }: Globs, name: string | null | undefined): boolean {
  const text = name ?? '';
  return (
    (include.length === 0 || include.some((glob) => globMatches(glob, text))) &&
    !exclude.some((glob) => globMatches(glob, text))
  );
}

/** Does every name that fits `narrow` certainly fit `wide` too? */
export function globsCover(wide: Globs, narrow: Globs): boolean {
  if (wide.exclude.some((glob) => !narrow.exclude.includes(glob))) return false;
  if (wide.include.length === 0) return true;
  // Read as a name, a glob's `*` fits only a `*`; its `?` might stand for a `*` and is left alone.
  return (
    narrow.include.length > 0 &&
    narrow.include.every((glob) =>
      wide.include.some((each) => each === glob || (!each.includes('?') && globMatches(each, glob))),
    )
  );
}
