import assert from 'node:assert/strict';
import { it } from 'node:test';
import { hasPassed, parseSpan, SPAN_PATTERN } from '../../../detector/rules/duration.js';

it('reads durations as Prometheus writes them, and steps', () => {
  const spans: [string, object][] = [
    ['0', { ms: 0 }],
    ['500ms', { ms: 500 }],
    ['90s', { ms: 90_000 }],
    ['5m', { ms: 300_000 }],
    ['1h30m', { ms: 5_400_000 }],
    ['1d2h3m4s5ms', { ms: 93_784_005 }],
    ['2w', { ms: 1_209_600_000 }],
    ['20 steps', { steps: 20 }],
    ['1 step', { steps: 1 }],
  ];
  for (const [text, span] of spans) {
    assert.match(text, SPAN_PATTERN);
    assert.deepEqual(parseSpan(text), span);
  }
  for (const text of ['', '5', '-5s', '1m1h', '1.5h', '5 s', '5minutes', 'steps', '20steps', 's'])
    assert.doesNotMatch(text, SPAN_PATTERN);
});

it('passes in event time, or in steps', () => {
  const since = { step: 10, ns: 1_770_000_000_000_000_000n };
  const later = { step: 12, ns: since.ns + 2_000_000_000n };
  assert.deepEqual(
    [{ ms: 0 }, { ms: 2000 }, { ms: 2001 }, { steps: 2 }, { steps: 3 }].map((span) => hasPassed(span, since, later)),
    [true, true, false, true, false],
  );
});
