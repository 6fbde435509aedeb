/** How long something must last: in event time, or in steps of the job. */
export type Span = { readonly ms: number } | { readonly steps: number };

export const NO_SPAN: Span = { ms: 0 };

/** Alertmanager's default group_interval: what ends and comes back within it is not told there as two alerts either. */
export const REOPEN_WITHIN = '5m';

const UNIT_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const;
/** `90s`, `1h30m` (as Prometheus writes durations), `20 steps` or `0`. */
export const SPAN_PATTERN = /^(?:\d{1,9} steps?|0|(?=\d)(?:\d+w)?(?:\d+d)?(?:\d+h)?(?:\d+m(?!s))?(?:\d+s)?(?:\d+ms)?)$/;

/** Reads what SPAN_PATTERN accepts. */
export function parseSpan(text: string): Span {
  if (text.includes('step')) return { steps: Number.parseInt(text, 10) };
  let ms = 0;
  for (const [, count, unit] of text.matchAll(/(\d+)(ms|[smhdw])/g))
    ms += Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS];
  return { ms };
}

/** A moment of a job: number of the step, and the event time at which it began. Plain data. */
export interface Moment {
  readonly step: number;
  readonly ns: bigint;
}

/** Has the span passed between two moments? A span of 0 has always passed. */
export function hasPassed(span: Span, since: Moment, now: Moment): boolean {
  return 'steps' in span ? now.step - since.step >= span.steps : Number(now.ns - since.ns) >= span.ms * 1e6;
}

export const isZero = (span: Span): boolean => ('steps' in span ? span.steps : span.ms) === 0;
