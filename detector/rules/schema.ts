import * as z from 'zod';
import { Cause, INCIDENT_KINDS, IncidentKind, Severity } from '../../protocol/incident.js';
import { WINDOW_STEPS } from '../detectors/finding.js';
import type { DetectorParams } from '../detectors/params.js';
import { REOPEN_WITHIN, SPAN_PATTERN } from './duration.js';
import { localClock } from './mute.js';
import { PARAMS } from './param-schema.js';

/*
 * Rule files as an operator writes them. A message of the form `problem; remedy` is told as both. The JSON Schema in
 * rules/schema.json is made from here, so what editors suggest and what the detector accepts is the same.
 */

export const API_VERSION = 'picket/v1';

const Text = z.string().min(1);
export const Globs = z
  .union([Text, z.array(Text).min(1)], {
    error: 'must be a glob or a list of globs; write "pretrain-*" or [a-*, "!a-test"]',
  })
  .meta({ description: 'Names with * and ?; one of a list must fit, and none that begins with !' });
export const NO_SPAN = 'is not a duration; write 0s, 30s, 1h30m or "20 steps"';
const SpanText = z.string(NO_SPAN).regex(SPAN_PATTERN, NO_SPAN);
const Fraction = z.number().min(0).max(1);
const Time = z.iso.datetime({ offset: true, error: 'is not a time; write 2026-01-31T08:00:00Z' });
const Until = z
  .union([z.iso.date(), Time], { error: 'is not a date or time; write "2026-01-31"' })
  .meta({ description: 'From then on it no longer holds' });
const RuleId = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, 'is not an id; use up to 64 of a-z, 0-9, _ and -, and never change it')
  .meta({ description: 'Stable name of the rule; unique in the whole rule set' });
const Name = z.string().regex(/^[a-zA-Z_][a-zA-Z0-9_]*$/, 'is not a label name; use letters, digits and _');
const Templates = z.record(Name, z.string());

const Match = z
  .strictObject({ job: Globs.optional(), engine: Globs.optional(), model: Globs.optional(), host: Globs.optional() })
  .meta({ description: 'What the rule holds for; absent: everything' });

const Exception = z
  .strictObject({
    name: Text,
    reason: Text,
    until: Until.optional(),
    match: z
      .strictObject({
        job: Globs.optional(),
        host: Globs.optional(),
        nic: Globs.optional(),
        link: Globs.optional(),
        group: Globs.optional(),
        phase: Globs.optional(),
        ranks: z.array(z.int().nonnegative()).min(1).optional(),
        stages: z.array(z.int().nonnegative()).min(1).optional(),
        cause: z.array(Cause).min(1).optional(),
      })
      .refine(
        (match) => Object.keys(match).length > 0,
        'excepts everything; name what is excepted, or set status: disabled',
      ),
  })
  .meta({ description: 'No incident where everything the finding names is excepted' });

const DAYS = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const;
const ClockTime = z.string().regex(/^([01]\d|2[0-3]):[0-5]\d$/, 'is not a time of day; write "02:30"');
export const Mute = z
  .strictObject({
    name: Text,
    days: z.array(z.enum(DAYS)).min(1).optional(),
    from: ClockTime.optional(),
    to: ClockTime.optional(),
    time_zone: z.string().refine(isTimeZone, 'is not a time zone; write one like Europe/Berlin').optional(),
    starts: Time.optional(),
    ends: Time.optional(),
  })
  .superRefine((mute, context) => {
    const [weekly, once] = [mute.from && mute.to, mute.starts && mute.ends];
    if (
      !weekly === !once ||
      (once && (mute.days || mute.from || mute.to || mute.time_zone)) ||
      (weekly && (mute.starts || mute.ends))
    )
      context.addIssue({
        code: 'custom',
        message: 'is no window; give from and to (with days, time_zone), or starts and ends',
      });
    if (once && Date.parse(mute.starts as string) >= Date.parse(mute.ends as string))
      context.addIssue({ code: 'custom', path: ['ends'], message: 'is not after starts; give a later time' });
  })
  .meta({ description: 'While it lasts no incident opens; one that is open goes on' });

const NO_THRESHOLDS = 'must be thresholds; write severity: {warning: 0.1, critical: 0.2}';
const Thresholds = z
  .strictObject(
    { warning: Fraction.optional(), critical: Fraction.optional() },
    { error: ({ code }) => (code === 'invalid_type' ? NO_THRESHOLDS : undefined) },
  )
  .refine(({ warning = 0.1, critical = 0.2 }) => warning <= critical, {
    error: 'has a warning above critical; raise critical (default 0.2) or lower warning (default 0.1)',
  })
  .meta({ description: 'Share of the step that must be lost; default warning 0.1, critical 0.2' });

const NoData = z
  .enum(['keep', 'resolve'])
  .default('keep')
  .meta({ description: 'What becomes of open incidents when a job falls silent, or an expression has no value' });

export const RULE_STATUSES = ['stable', 'experimental', 'deprecated', 'disabled'] as const;

const common = {
  id: RuleId,
  status: z
    .enum(RULE_STATUSES)
    .default('stable')
    .meta({ description: 'experimental: never above info; disabled: as if it were not there' }),
  description: Text.optional(),
  owner: Text.optional().meta({ description: 'Whom to ask; default: the group’s' }),
  runbook: Text.optional().meta({ description: 'What to do about it: URL or path; default: the group’s' }),
  match: Match.prefault({}),
  for: SpanText.default('0').meta({ description: 'How long it must last before an incident opens' }),
  keep_firing_for: SpanText.default('0').meta({
    description: 'How long an incident stays open after it was last seen',
  }),
  reopen_within: SpanText.default(REOPEN_WITHIN).meta({
    description: 'What begins anew on the same subject so soon after its incident ended carries that one on',
  }),
  noData: NoData,
  exceptions: z.array(Exception).default([]),
  mute: z.array(Mute).default([]),
  labels: Templates.default({}),
  annotations: Templates.default({}),
};

/** Kinds that only inform: their severity is always info. */
const INFORMING: ReadonlySet<IncidentKind> = new Set(['transient_stall', 'data_quality']);

/** What a rule on a kind says beyond what all rules say. */
function kindRule(kind: IncidentKind) {
  const params = PARAMS.get(kind);
  return z.strictObject({
    ...common,
    kind: z.literal(kind),
    ...(!INFORMING.has(kind) && { severity: Thresholds.optional() }),
    ...(params && { params: params.optional() }),
  });
}
const KIND_RULES = new Map(INCIDENT_KINDS.map((kind) => [kind, kindRule(kind)]));

const ExpressionRule = z.strictObject({
  ...common,
  kind: IncidentKind.meta({ description: 'What its incidents are filed as' }),
  expr: Text.meta({ description: 'CEL over windows of phase statistics; true: it is wrong' }),
  window: z
    .int()
    .min(1)
    .max(WINDOW_STEPS)
    .default(WINDOW_STEPS / 2)
    .meta({ description: 'Steps; it is evaluated once every so many' }),
  per: z.enum(['job', 'rank']).default('job'),
  cost_ms: Text.optional().meta({
    description: 'CEL: milliseconds lost a step; then thresholds may decide the severity',
  }),
  cause: Cause.default('unknown'),
  severity: z
    .union([Severity, Thresholds], { error: 'must be info, warning, critical or thresholds; write severity: warning' })
    .default('info'),
});

/** A rule on what detectors find, or one that is an expression of its own. */
export type KindRuleBody = z.output<z.ZodObject<typeof common>> & {
  readonly kind: IncidentKind;
  readonly params?: DetectorParams[keyof DetectorParams] | undefined;
  readonly severity?: z.output<typeof Thresholds> | undefined;
};
export type ExpressionRuleBody = z.output<typeof ExpressionRule>;
export type MuteBody = z.output<typeof Mute>;
export type ExceptionBody = z.output<typeof Exception>;

const SwitchedOff = z
  .strictObject({ kind: IncidentKind, jobs: Globs, reason: Text, until: Until.optional() })
  .meta({ description: 'A kind that is not reported for some jobs, whatever rule would' });
export type SwitchedOffBody = z.output<typeof SwitchedOff>;

const fileOf = <Rule extends z.ZodType>(rule: Rule) =>
  z.strictObject({
    apiVersion: z.literal(API_VERSION, `must be ${API_VERSION}; write "apiVersion: ${API_VERSION}"`),
    switched_off: z.array(SwitchedOff).default([]),
    groups: z
      .array(
        z.strictObject({
          name: Text,
          owner: Text.optional(),
          runbook: Text.optional(),
          labels: Templates.default({}),
          rules: z.array(rule).min(1),
        }),
      )
      .default([]),
  });

/** A file whose rules are yet to be looked at, each by the schema of its own kind. */
export const RuleFileFrame = fileOf(z.unknown());
export type RuleFileFrame = z.output<typeof RuleFileFrame>;

/** The schema of a rule by what it says it is: an expression, or of one of the kinds. */
export function schemaOfRule(rule: { readonly kind?: unknown }): z.ZodType<KindRuleBody | ExpressionRuleBody> {
  if ('expr' in rule) return ExpressionRule;
  return (KIND_RULES.get(rule.kind as IncidentKind) ?? KIND_RULES.get('comm_slow')) as z.ZodType<KindRuleBody>;
}

/** JSON Schema (draft 7, which editors know best) of a rule file. */
export function ruleFileJsonSchema(): object {
  const file = fileOf(z.union([...KIND_RULES.values(), ExpressionRule]));
  return { title: 'Picket rule file', ...z.toJSONSchema(file, { io: 'input', target: 'draft-7', reused: 'ref' }) };
}

function isTimeZone(name: string): boolean {
  try {
    localClock(name);
    return true;
  } catch {
    return false;
  }
}
