const DECIMAL = /^(-?)(\d+)(?:\.(\d*))?(?:[eE]([+-]?\d{1,3}))?$/;

/**
 * A decimal number of microseconds as whole nanoseconds, without passing through a double: "100.7" is 100700.
 * Digits beyond the nanosecond round half away from zero. undefined: not a number.
 */
export function nanosecondsOf(microseconds: string): bigint | undefined {
  const match = DECIMAL.exec(microseconds.trim());
  if (!match) return undefined;
  const [, sign, whole = '', fraction = '', exponent = '0'] = match;
  const digits = whole + fraction;
  // Where the point stands among the digits, once moved to nanoseconds.
  const point = whole.length + Number(exponent) + 3;
  const kept = point > 0 ? digits.slice(0, point).padEnd(point, '0') : '0';
  const rounds = point >= 0 && (digits[point] ?? '0') >= '5' ? 1n : 0n;
  const value = BigInt(kept) + rounds;
  return sign ? -value : value;
}

const STAMP = { ts: /"ts"\s*:\s*"?([-+.\deE]+)/g, dur: /"dur"\s*:\s*"?([-+.\deE]+)/g };

/**
 * The exact value of `ts` or `dur` of a trace event in nanoseconds: its digits are lifted from the event's text, for
 * the parsed number has lost those beyond 2^53. `parsed` tells the field from one of the same name within args.
 */
export function stampOf(text: string, field: 'ts' | 'dur', parsed: unknown): bigint | undefined {
  if (typeof parsed === 'string') return nanosecondsOf(parsed);
  if (typeof parsed !== 'number') return undefined;
  // So far from 2^53 an integer cannot be a rounded fraction.
  if (Number.isInteger(parsed) && Math.abs(parsed) < 1e12) return BigInt(parsed * 1000);
  for (const [, digits = ''] of text.matchAll(STAMP[field]))
    if (Number(digits) === parsed) return nanosecondsOf(digits);
  return undefined;
}
