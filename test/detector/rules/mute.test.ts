import assert from 'node:assert/strict';
import { it } from 'node:test';
import { muteWindow, nsOf } from '../../../detector/rules/mute.js';
import type { MuteBody } from '../../../detector/rules/schema.js';

const holds = (body: Omit<MuteBody, 'name'>, times: string[]): boolean[] => {
  const window = muteWindow({ name: 'w', ...body });
  return times.map((time) => window.holds(nsOf(time)));
};

it('a window with dates holds from its start to before its end', () => {
  const body = { starts: '2026-01-31T08:00:00+01:00', ends: '2026-01-31T09:00:00Z' };
  assert.deepEqual(
    holds(body, ['2026-01-31T06:59:59Z', '2026-01-31T07:00:00Z', '2026-01-31T08:59:59Z', '2026-01-31T09:00:00Z']),
    [false, true, true, false],
  );
});

it('a weekly window holds on its days, in its time zone, through changes of the clock', () => {
  // 2026-03-27 is a Friday; on the 29th Berlin goes from UTC+1 to UTC+2.
  const body: Omit<MuteBody, 'name'> = { days: ['fri', 'mon'], from: '02:00', to: '03:30', time_zone: 'Europe/Berlin' };
  const times = [
    '2026-03-27T00:59:00Z',
    '2026-03-27T01:00:00Z',
    '2026-03-27T02:29:59Z',
    '2026-03-27T02:30:00Z',
    '2026-03-28T01:00:00Z',
    '2026-03-30T00:00:00Z',
  ];
  assert.deepEqual(holds(body, times), [false, true, true, false, false, true]);
});

it('a window over midnight belongs to the day on which it begins', () => {
  const body: Omit<MuteBody, 'name'> = { days: ['sat'], from: '22:00', to: '06:00' };
  const times = [
    '2026-01-03T21:59:00Z',
    '2026-01-03T22:00:00Z',
    '2026-01-04T05:59:00Z',
    '2026-01-04T06:00:00Z',
    '2026-01-04T23:00:00Z',
  ];
  assert.deepEqual(holds(body, times), [false, true, true, false, false]);
});
