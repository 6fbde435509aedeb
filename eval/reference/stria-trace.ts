import { middle, type StepTimes } from '../timeline.js';
import { type Alarm, episodes, type Method } from './method.js';

const QUANTILE = 0.99;
/** Steps of a phase that its line is learnt from. */
const BOOTSTRAP = 100;
const BUCKETS = 8;

interface Point {
  readonly tokens: number;
  readonly latency: number;
}

/**
 * StriaTrace: for prefill and decode each a line through the P99 of the step's latency by number of tokens, learnt from the
 * first steps; a step above it is abnormal. It does not say what of, so that any serving trouble makes it right.
 */
export const striaTrace: Method = {
  name: 'StriaTrace',
  rule: `step above the line through the P99 of latency by tokens, of the phase's first ${BOOTSTRAP} steps`,
  claims: ['straggler', 'nvlink_stall', 'tp_slow_path', 'prefill_blocking', 'kv_recompute', 'no_cuda_graph'],
  workloads: ['serving'],
  detect({ steps }) {
    const seen = { prefill: [] as Point[], decode: [] as Point[] };
    const lines = new Map<string, (tokens: number) => number>();
    const alarms: Alarm[] = [];
    for (const step of steps) {
      const point = pointOf(step);
      const phase = Math.max(0, ...step.prefillTokens.filter(Number.isFinite)) > 0 ? 'prefill' : 'decode';
      const line = lines.get(phase);
      if (line) {
        if (point.latency > line(point.tokens)) alarms.push({ kinds: striaTrace.claims, step: step.step, ranks: [] });
      } else if (seen[phase].push(point) === BOOTSTRAP) lines.set(phase, lineOf(seen[phase]));
    }
    return episodes(alarms);
  },
};

function pointOf({ starts, ends, prefillTokens, decodeTokens }: StepTimes): Point {
  const latency = middle(starts.map((start, rank) => (ends[rank] as number) - start));
  const tokens = middle(prefillTokens.map((prefill, rank) => prefill + (decodeTokens[rank] ?? 0)));
  return { tokens, latency };
}

/** Median of the slopes between buckets, as robust as RANSAC for so few points; then as high as the buckets' P99 lie. */
function lineOf(points: readonly Point[]): (tokens: number) => number {
  const sorted = [...points].sort((a, b) => a.tokens - b.tokens);
  const size = Math.ceil(sorted.length / BUCKETS);
  const tops = Array.from({ length: BUCKETS }, (_, i) => sorted.slice(i * size, (i + 1) * size))
    .filter((bucket) => bucket.length > 0)
    .map((bucket) => ({ tokens: middle(bucket.map(({ tokens }) => tokens)), latency: topOf(bucket) }));
  const slopes = tops.flatMap((a, i) =>
    tops.slice(i + 1).flatMap((b) => (a.tokens === b.tokens ? [] : [(b.latency - a.latency) / (b.tokens - a.tokens)])),
  );
  const slope = slopes.length > 0 ? Math.max(0, middle(slopes)) : 0;
  const height = topOf(tops.map(({ tokens, latency }) => ({ tokens, latency: latency - slope * tokens })));
  return (tokens) => height + slope * tokens;
}

function topOf(points: readonly Point[]): number {
  const latencies = points.map(({ latency }) => latency).sort((a, b) => a - b);
  return latencies[Math.ceil(QUANTILE * latencies.length) - 1] as number;
}
