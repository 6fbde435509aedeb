import { basename, dirname, resolve } from 'node:path';

const EXTENSIONS = /(?:\.(?:pt|trace|json|jsonl|ndjson|parquet|gz))+$/i;
const RANK_TOKEN = /(?:^|[-_.])rank[-_]?(\d+)(?=[-_.]|$)/i;

/** The rank that a file's name gives: `rank3`, `rank-3` or `rank_3` between separators. */
export function rankOfFile(path: string): number | undefined {
  const rank = RANK_TOKEN.exec(basename(path).replace(EXTENSIONS, ''))?.[1];
  return rank === undefined ? undefined : Number(rank);
}

/** The job of a file that names none: its base name without the rank, else its folder's name. */
export function jobOfFile(path: string): string {
  const base = basename(path).replace(EXTENSIONS, '').replace(RANK_TOKEN, '');
  return base || basename(dirname(resolve(path))) || 'job';
}
