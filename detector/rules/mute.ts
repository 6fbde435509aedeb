import type { MuteBody } from './schema.js';

/** A window in which no incident opens. */
export interface MuteWindow {
  readonly name: string;
  /** Is a moment of event time (epoch ns) within it? */
  readonly holds: (now: bigint) => boolean;
}

const DAY_NAMES = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const DAY_MINUTES = 1440;

export function muteWindow(body: MuteBody): MuteWindow {
  if (body.starts !== undefined && body.ends !== undefined) {
    const [starts, ends] = [nsOf(body.starts), nsOf(body.ends)];
    return { name: body.name, holds: (now) => now >= starts && now < ends };
  }
  return { name: body.name, holds: weekly(body) };
}

/** Epoch ns of an RFC 3339 time, or of the beginning of a date in UTC. */
export const nsOf = (time: string): bigint => BigInt(Date.parse(time)) * 1_000_000n;

/** Times of day in a time zone; where `to` is not after `from` the window ends on the next day. */
function weekly({ days, from = '00:00', to = '00:00', time_zone = 'UTC' }: MuteBody): (now: bigint) => boolean {
  const [start, end] = [minutesOf(from), minutesOf(to)];
  const length = end > start ? end - start : end - start + DAY_MINUTES;
  const chosen = new Set((days ?? DAY_NAMES).map((day) => DAY_NAMES.indexOf(day)));
  const clock = localClock(time_zone);
  let known = { minute: -1, holds: false };
  return (now) => {
    const minute = Number(now / 60_000_000_000n);
    if (minute !== known.minute) {
      const local = clock(minute * 60_000);
      const since = (local.minutes - start + DAY_MINUTES) % DAY_MINUTES;
      const startDay = local.minutes < start ? (local.day + 6) % 7 : local.day;
      known = { minute, holds: since < length && chosen.has(startDay) };
    }
    return known.holds;
  };
}

const minutesOf = (clock: string): number => 60 * Number(clock.slice(0, 2)) + Number(clock.slice(3));

type LocalClock = (epochMs: number) => { day: number; minutes: number };

/** Making a clock takes a tenth of a millisecond, and rules use few time zones. */
const CLOCKS = new Map<string, LocalClock>();

/** Day of the week (0 is Sunday) and minute of the day in a time zone. Throws RangeError for one that is none. */
export function localClock(timeZone: string): LocalClock {
  let clock = CLOCKS.get(timeZone);
  if (!clock) CLOCKS.set(timeZone, (clock = newClock(timeZone)));
  return clock;
}

function newClock(timeZone: string): LocalClock {
  const format = new Intl.DateTimeFormat('en-US', {
    ...{ timeZone, weekday: 'short', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' },
  });
  return (epochMs) => {
    const parts = new Map(format.formatToParts(epochMs).map(({ type, value }) => [type, value]));
    const day = DAY_NAMES.indexOf(String(parts.get('weekday')).toLowerCase());
    return { day, minutes: 60 * Number(parts.get('hour')) + Number(parts.get('minute')) };
  };
}
