import * as z from 'zod';
import { parseSpan, SPAN_PATTERN } from '../../detector/rules/duration.js';
import { parseRuleYaml, type RuleProblem } from '../../detector/rules/problem.js';
import { API_VERSION } from '../../detector/rules/schema.js';
import { schemaProblems } from '../../detector/rules/schema-problems.js';
import { Cause, IncidentKind, IncidentStatus, Severity, Subject } from '../../protocol/incident.js';
import { expandValues } from './values.js';

const Text = z.string().min(1);
const Values = z.string().transform((text, context) => {
  const values = expandValues(text);
  if (values) return values;
  context.addIssue({
    code: 'custom',
    message: 'is no series; write "10x49 13x9", "1+0.5x3" or "_x9", as promtool does',
  });
  return z.NEVER;
});
const Interval = z
  .string()
  .regex(SPAN_PATTERN, 'is not a duration; write 1s or 500ms')
  .refine((text) => 'ms' in parseSpan(text), 'is no time; write 1s or 500ms')
  .transform((text) => (parseSpan(text) as { ms: number }).ms)
  .refine((ms) => ms > 0, 'is 0; give at least 1ms');

const JobFacts = { job: Text.default('job'), engine: Text.optional(), model: Text.optional() };

const Series = z.strictObject({
  ...JobFacts,
  ranks: z.int().min(1).max(4096).default(1),
  hosts: z.array(Text).min(1).optional(),
  stages: z.array(z.int().nonnegative()).min(1).optional(),
  /** From the start of a step to that of the next; default: as long as the slowest rank takes. */
  period: Interval.optional(),
  phases: z.array(z.strictObject({ phase: Text, rank: z.int().nonnegative().optional(), values: Values })).min(1),
});

const Findings = z.strictObject({
  ...JobFacts,
  interval: Interval.default(1000),
  series: z
    .array(
      z.strictObject({
        kind: IncidentKind,
        subject: Subject.omit({ job: true, run: true }).partial().strict().default({}),
        cause: Cause.default('unknown'),
        /** Share of the step that is lost; _: not there. */
        step_fraction: Values,
      }),
    )
    .min(1),
});

const Trace = z.strictObject({
  /** Relative to the test file. */
  path: Text,
  scenario: Text.optional(),
  /** Only incidents of this job count. */
  job: Text.optional(),
});

const Step = z.union([z.int(), z.tuple([z.int(), z.int()])], {
  error: 'must be a step or [first, last]; write 250 or [250, 260]',
});
const Texts = z.record(z.string(), z.string());

/** What an incident must be like; what is not said may be anything. */
const Expectation = z.strictObject({
  rule: Text.optional(),
  kind: IncidentKind.optional(),
  severity: Severity.optional(),
  cause: Cause.optional(),
  status: IncidentStatus.optional(),
  subject: Subject.partial().strict().optional(),
  onset_step: Step.optional(),
  detected_step: Step.optional(),
  /** null: it must not be resolved. */
  resolved_step: Step.nullable().optional(),
  labels: Texts.optional(),
  annotations: Texts.optional(),
});
export type Expectation = z.output<typeof Expectation>;

const INPUTS = ['trace', 'simulate', 'series', 'findings'] as const;

const Test = z
  .strictObject({
    name: Text,
    trace: Trace.optional(),
    /** Options of the simulator, which checks them itself. */
    simulate: z.looseObject({ scenario: Text, ranks: z.int(), steps: z.int(), seed: z.int().default(1) }).optional(),
    series: Series.optional(),
    findings: Findings.optional(),
    /** All incidents that open; none: nothing may. */
    expect: z.array(Expectation),
  })
  .refine((test) => INPUTS.filter((input) => test[input]).length === 1, {
    error: `has not one input; give one of ${INPUTS.join(', ')}`,
  });
export type RuleTest = z.output<typeof Test>;

const TestFile = z.strictObject({
  apiVersion: z.literal(API_VERSION, `must be ${API_VERSION}; write "apiVersion: ${API_VERSION}"`),
  /** Relative to the test file. */
  rule_files: z.array(Text).min(1),
  tests: z.array(Test).min(1),
});
export type TestFile = z.output<typeof TestFile>;

/** Parses a test file; without one the problems say why. */
export function parseTestFile(text: string, path: string): { file?: TestFile; problems: readonly RuleProblem[] } {
  const { source, problems } = parseRuleYaml(text, path);
  if (!source) return { problems };
  const parsed = TestFile.safeParse(source.value);
  if (parsed.success) return { file: parsed.data, problems };
  const found = schemaProblems(TestFile, parsed.error.issues, source, [], {});
  return { problems: found.sort((a, b) => a.line - b.line || a.col - b.col) };
}
