import type { StepView } from './step-view.js';

/**
 * Ranks of a host that do the same work differ by 1.3 % at the 99th percentile (public NDTimeline traces), and by 9 % for
 * some steps while GPUs heat up (recorded H200 training).
 */
const BUSY = 1.1;

/**
 * Whether a rank computes so much longer than another, for as many tokens, that something else must be using its GPU: then
 * its share of a collective is slow as well, and that says nothing of the link.
 */
export function hasBusyGpu({ work, tokens }: StepView, slots: readonly number[]): boolean {
  let [least, most] = [Number.POSITIVE_INFINITY, 0];
  const first = tokens[slots[0] as number] as number;
  for (const slot of slots) {
    if ((tokens[slot] as number) !== first && !Number.isNaN(first)) return false;
    const own = work.compute[slot] as number;
    if (!(own > 0)) continue;
    least = Math.min(least, own);
    most = Math.max(most, own);
  }
  return most > BUSY * least;
}
