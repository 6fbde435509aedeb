import * as z from 'zod';
import { suggestion } from '../../protocol/mistyped-names.js';
import { parseSpan, SPAN_PATTERN } from '../rules/duration.js';
import { globMatches } from '../rules/globs.js';
import { type MuteWindow, muteWindow } from '../rules/mute.js';
import { Globs, Mute } from '../rules/schema.js';
import { LABEL_VALUES } from './labels.js';
import { Matcher } from './matcher.js';
import type { ReceiverPolicy } from './notifications.js';

const MAX_MS = 10 * 365 * 86_400_000;

export const Duration = z
  .string()
  .regex(SPAN_PATTERN, 'is not a duration; write 30s or 4h')
  .refine((text) => !text.includes('step'), 'is not a duration; write 30s or 4h')
  .refine((text) => msOf(text) <= MAX_MS, 'is longer than ten years');
const LabelName = z.string().regex(/^[a-zA-Z_][a-zA-Z0-9_]*$/, 'is not a label; use letters, digits and _');
/** Alertmanager's word for "by all labels". */
export const UNGROUPED = '...';

/** Globs by label; those of an enumeration must fit one of its values. */
export const MatchConfig = z.record(LabelName, Globs).superRefine((match, context) => {
  for (const [name, values] of Object.entries(LABEL_VALUES))
    for (const glob of [match[name] ?? []].flat()) {
      const wanted = glob.replace(/^!/, '');
      if (values.some((value) => globMatches(wanted, value))) continue;
      const message = `"${wanted}" is no ${name}; ${suggestion(wanted, values)}`;
      context.addIssue({ code: 'custom', path: [name], message });
    }
});

/** A route as an operator writes it: which incidents a receiver hears of, how they are put together, and when. */
export const RouteConfig = z.strictObject({
  receiver: z.string().min(1),
  match: MatchConfig.default({}),
  /** Also look at the routes after this one. */
  continue: z.boolean().default(false),
  /** Alerts that agree in these labels are told together; `...`: each incident by itself. */
  group_by: z.array(z.union([LabelName, z.literal(UNGROUPED)])).default([UNGROUPED]),
  /** How long a change waits for others to be told with. Default 30s, or 0 for single incidents. */
  group_wait: Duration.optional(),
  /** Least time between two messages of a group. Default 5m, or 0 for single incidents. */
  group_interval: Duration.optional(),
  /** What still fires is told again after so long; 0: never. */
  repeat_interval: Duration.default('4h'),
  /** Planned maintenance: what is told while it lasts is the end of what was told before. */
  mute: z.array(Mute).default([]),
});
export type RouteConfig = z.infer<typeof RouteConfig>;

export interface Route {
  readonly receiver: ReceiverPolicy;
  readonly match: Matcher;
  readonly continues: boolean;
  /** Names of labels; undefined: each incident is a group of its own. */
  readonly groupBy: readonly string[] | undefined;
  readonly timing: GroupTiming;
  readonly mute: readonly MuteWindow[];
}

/** Milliseconds. */
export interface GroupTiming {
  readonly waitMs: number;
  readonly intervalMs: number;
  /** 0: never. */
  readonly repeatMs: number;
}

/** Each change is told by itself and at once. */
export const AT_ONCE: GroupTiming = { waitMs: 0, intervalMs: 0, repeatMs: 0 };

/** The routes of a detector. Without any, each receiver hears of everything, each incident by itself, at once. */
export function routesOf(configs: readonly RouteConfig[], receivers: readonly ReceiverPolicy[]): Route[] {
  if (configs.length === 0)
    return receivers.map((receiver) => ({
      ...{ receiver, match: new Matcher({}), continues: true, groupBy: undefined, timing: AT_ONCE, mute: [] },
    }));
  return configs.map((config) => {
    const receiver = receivers.find(({ name }) => name === config.receiver) as ReceiverPolicy;
    const groupBy = config.group_by.includes(UNGROUPED) ? undefined : config.group_by;
    const ms = (text: string | undefined, grouped: string): number => msOf(text ?? (groupBy ? grouped : '0'));
    const timing = {
      waitMs: ms(config.group_wait, '30s'),
      intervalMs: ms(config.group_interval, '5m'),
      repeatMs: msOf(config.repeat_interval),
    };
    return {
      ...{ receiver, groupBy, timing, match: new Matcher(config.match), continues: config.continue },
      mute: config.mute.map(muteWindow),
    };
  });
}

/** Of what Duration accepts. */
export function msOf(text: string): number {
  const span = parseSpan(text);
  return 'ms' in span ? span.ms : 0;
}
