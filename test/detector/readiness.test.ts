import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { readinessLog } from '../../detector/readiness.js';

test('the log says ready when every probe does, once, and before it what keeps the detector', () => {
  const lines: string[] = [];
  const log = pino({ base: null, timestamp: false }, { write: (line: string) => void lines.push(line.trim()) });
  let rules: string | undefined = 'no rules are loaded';
  const probes = [
    { name: 'store', check: () => undefined },
    { name: 'rules', check: () => rules },
  ];
  const tell = readinessLog(probes, log, 'http://h');
  tell();
  tell();
  rules = undefined;
  tell();
  tell();
  assert.deepEqual(
    lines.map((line) => JSON.parse(line)),
    [
      {
        ...{ level: 40, url: 'http://h', msg: 'detector started, but not ready' },
        reasons: [{ probe: 'rules', reason: 'no rules are loaded' }],
      },
      { level: 30, url: 'http://h', msg: 'detector ready' },
    ],
  );
});
