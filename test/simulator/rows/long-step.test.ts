import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KIND } from '../../../protocol/vocabulary.js';
import { LongStep } from '../../../simulator/rows/long-step.js';

test('what lasts is reported open at each interval, then closed; rows come when they are known, cut by interval', () => {
  const long = new LongStep(10);
  const facts = { step: 1, phase: 'checkpoint', kind: KIND.host, max_ns: 7 };
  long.add(0, 0, 35, facts);
  facts.max_ns = 9;
  long.add(1, 4, 8, { step: 1, phase: 'forward', kind: KIND.compute });
  long.add(1, 0, 40, { step: 1, phase: 'host_gap', kind: KIND.host });
  long.add(1, 0, 33, { step: 1, phase: 'step', kind: KIND.step });
  const seen: (string | number | bigint)[][] = [];
  long.play(
    (rank, start, dur, { phase, open, max_ns }) =>
      seen.push([rank, phase, start, dur, open ? 'open' : '', max_ns ?? '']),
    () => seen.push(['cut']),
  );
  assert.deepEqual(seen, [
    [0, 'checkpoint', 0, 10, 'open', ''],
    [1, 'forward', 4, 8, '', ''],
    ['cut'],
    [0, 'checkpoint', 0, 20, 'open', ''],
    ['cut'],
    [0, 'checkpoint', 0, 30, 'open', ''],
    [1, 'step', 0, 33, '', ''],
    [0, 'checkpoint', 0, 35, '', 7],
    ['cut'],
    [1, 'host_gap', 0, 40, '', ''],
    ['cut'],
  ]);
});
