export interface RetryPolicy {
  readonly baseMs: number;
  readonly maxMs: number;
}

/** With 12 attempts a receiver may be away for 2.4 hours at least, 3.6 on average. */
export const DEFAULT_RETRY: RetryPolicy = { baseMs: 5_000, maxMs: 3_600_000 };

/** What a try led to; `status` is undefined when no answer came. */
export interface Reply {
  readonly status: number | undefined;
  /** For the log and the outbox; holds neither address nor body. */
  readonly error: string;
  /** What the receiver asked for, in milliseconds from now. */
  readonly retryAfterMs?: number | undefined;
  /** All was sent and no answer came: the receiver may have taken it all the same. */
  readonly unanswered?: boolean;
}

/** Did an attempt perhaps reach its receiver, though it failed? A gateway answers so when what is behind it does not. */
export const mayHaveArrived = ({ status, unanswered }: Reply): boolean =>
  unanswered === true || status === 502 || status === 504;

export type Verdict = 'delivered' | 'retry' | 'reject';

/** Only 2xx is delivered; redirects are refused; what can pass is tried again, and what cannot is not. */
export function verdictOf(status: number | undefined): Verdict {
  if (status === undefined || status >= 500 || status === 408 || status === 425 || status === 429) return 'retry';
  return status >= 200 && status < 300 ? 'delivered' : 'reject';
}

/**
 * Milliseconds to the next try after `attempts` failed ones: anywhere within an octave that doubles each time, so that retries
 * spread over all of it and their gaps still grow.
 * @param random uniform in [0, 1)
 */
export function octaveMs(attempts: number, { baseMs, maxMs }: RetryPolicy, random: number): number {
  return Math.min(maxMs, baseMs * 2 ** (attempts - 1)) * (1 + random);
}

/** Seconds or an HTTP date, as milliseconds from now; undefined when it is neither. */
export function parseRetryAfter(header: string | null, nowMs: number): number | undefined {
  const text = header?.trim() ?? '';
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs);
}
