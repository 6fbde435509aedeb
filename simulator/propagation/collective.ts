/**
 * When a collective ends for all its ranks: none leaves before the last has come. `free` holds, by rank, when each arrives.
 * Its shortest duration, that of the last arriver, is the transfer alone.
 */
export function collectiveEnd(free: Float64Array, ranks: readonly number[], transferNs: number): number {
  let last = Number.NEGATIVE_INFINITY;
  for (const rank of ranks) last = Math.max(last, free[rank] as number);
  return last + transferNs;
}
