import { dirname, join, resolve } from 'node:path';
import { formatProblem, type RuleProblem } from '../../detector/rules/problem.js';
import type { RuleText } from '../../detector/rules/rule-file.js';
import { loadRules, type RuleSet } from '../../detector/rules/rule-set.js';
import { PicketError } from '../../protocol/errors.js';
import type { Incident } from '../../protocol/incident.js';
import { type Expectation, parseTestFile, type RuleTest } from './test-file.js';
import { incidentsOf } from './test-input.js';

export interface TestResult {
  readonly file: string;
  readonly name: string;
  readonly seconds: number;
  /** What was not as expected; empty: it passed. */
  readonly failures: readonly Failure[];
}

export interface Failure {
  readonly message: string;
  /** Field by field, expected and got; empty where there is nothing to compare. */
  readonly differences: readonly string[];
}

/**
 * Runs the tests of a file whose names fit.
 * @param readRules reads a rule file or all those of a folder
 */
export async function runTestFile(
  { path, text }: RuleText,
  readRules: (path: string) => Promise<RuleText[]>,
  wanted: RegExp,
): Promise<TestResult[]> {
  const { file, problems } = parseTestFile(text, path);
  if (!file) return [broken(path, problems)];
  const paths = file.rule_files.map((each) => join(dirname(path), each));
  const texts = (await Promise.all(paths.map(readRules))).flat();
  const { set, problems: ruleProblems } = loadRules(texts, null);
  if (!set) return [broken(path, ruleProblems)];
  const results: TestResult[] = [];
  for (const test of file.tests.filter(({ name }) => wanted.test(name))) results.push(await runTest(test, set, path));
  return results;
}

const broken = (file: string, problems: readonly RuleProblem[]): TestResult => ({
  file,
  name: 'loads',
  seconds: 0,
  failures: problems.map((problem) => ({ message: formatProblem(problem), differences: [] })),
});

async function runTest(test: RuleTest, set: RuleSet, path: string): Promise<TestResult> {
  const started = performance.now();
  const failures = await failuresOf(test, set, path);
  return { file: path, name: test.name, seconds: (performance.now() - started) / 1000, failures };
}

async function failuresOf(test: RuleTest, set: RuleSet, path: string): Promise<Failure[]> {
  try {
    const incidents = await incidentsOf(test, set, resolve(path));
    return compare(
      test.expect,
      incidents.filter(({ rule }) => set.rule(rule.id)),
    );
  } catch (error) {
    if (!(error instanceof PicketError)) throw error;
    return [{ message: error.message, differences: [] }];
  }
}

/** Pairs expectations with incidents; what is left over on either side is a failure. */
function compare(expected: readonly Expectation[], incidents: readonly Incident[]): Failure[] {
  const left = new Set(incidents);
  const unmet = expected.filter((expectation) => {
    const found = [...left].find((incident) => differences(expectation, incident).length === 0);
    if (found) left.delete(found);
    return !found;
  });
  const missing = unmet.map((expectation): Failure => {
    const ranked = [...left].map((incident) => ({ incident, wrong: differences(expectation, incident) }));
    const nearest = ranked.sort((a, b) => a.wrong.length - b.wrong.length)[0];
    const message = `expected ${JSON.stringify(expectation)}, which did not open${nearest ? `; nearest: ${titleOf(nearest.incident)}` : ''}`;
    return { message, differences: nearest?.wrong ?? [] };
  });
  const surplus = unmet.length > 0 && unmet.length >= left.size ? [] : [...left];
  return [
    ...missing,
    ...surplus.map((incident) => ({ message: `opened and was not expected: ${titleOf(incident)}`, differences: [] })),
  ];
}

const titleOf = ({ kind, severity, summary, onset_step, detected_step, rule }: Incident): string =>
  `${severity} ${kind} of rule ${rule.id}, onset step ${onset_step}, opened at step ${detected_step}: ${summary}`;

/** Fields in which an incident is not as expected. */
function differences(expectation: Expectation, incident: Incident): string[] {
  const { rule, labels, annotations, subject, onset_step, detected_step, resolved_step, ...plain } = expectation;
  const resolved = incident.status === 'resolved' ? (incident.timeline.at(-1)?.step ?? null) : null;
  const wrong = [
    ...unequal({ rule }, { rule: incident.rule.id }),
    ...unequal(plain, incident),
    ...unequal(subject ?? {}, incident.subject, 'subject.'),
    ...unequal(labels ?? {}, incident.rule.labels ?? {}, 'labels.'),
    ...unequal(annotations ?? {}, incident.rule.annotations ?? {}, 'annotations.'),
  ];
  for (const [name, wanted, got] of [
    ['onset_step', onset_step, incident.onset_step],
    ['detected_step', detected_step, incident.detected_step],
    ['resolved_step', resolved_step, resolved],
  ] as const)
    if (wanted !== undefined && !isStep(wanted, got)) wrong.push(difference(name, wanted, got));
  return wrong;
}

function unequal(wanted: object, got: object, prefix = ''): string[] {
  return Object.entries(wanted).flatMap(([name, value]) => {
    const actual = (got as Record<string, unknown>)[name];
    return value === undefined || JSON.stringify(value) === JSON.stringify(actual)
      ? []
      : [difference(prefix + name, value, actual)];
  });
}

const isStep = (wanted: number | [number, number] | null, got: number | null): boolean =>
  Array.isArray(wanted) ? got !== null && got >= wanted[0] && got <= wanted[1] : wanted === got;

const difference = (name: string, wanted: unknown, got: unknown): string =>
  `- ${name}: ${JSON.stringify(wanted)}\n+ ${name}: ${JSON.stringify(got)}`;
