import { INCIDENT_KINDS, type Incident, type IncidentKind } from '../protocol/incident.js';
import { SCENARIOS } from '../simulator/simulate.js';
import { type CaseOptions, isGraded, isHealthyLoad, needsBaseline, STRENGTHS, STRONG } from './cases.js';
import { confusion, f1, medianAndMax, poissonUpper, precision, recall } from './metrics.js';
import { METHODS } from './reference/all.js';
import type { Outcome, TruthOutcome } from './score.js';
import type { MethodOutcome } from './score-methods.js';

/** A heading and its rows, ready to print. */
export interface Table {
  readonly title: string;
  readonly note: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

export const loads = (outcomes: readonly Outcome[]): Outcome[] =>
  outcomes.filter(({ played }) => isHealthyLoad(played.options.scenario));
const others = (outcomes: readonly Outcome[]): Outcome[] =>
  outcomes.filter(({ played }) => !isHealthyLoad(played.options.scenario));
/** What was so from the first step on counts as seen with a baseline. */
export const counted = (outcomes: readonly Outcome[]): Outcome[] =>
  others(outcomes).filter(({ played: { options } }) => !needsBaseline(options.scenario) || options.baseline);

export const pages = ({ severity }: Incident): boolean => severity !== 'info';

/** Strong faults: 20 % or more, or of the scenario's own strength where that is no share. */
export function isStrong({ options }: Outcome['played'], { truth }: TruthOutcome): boolean {
  const scenario = SCENARIOS[options.scenario];
  return !scenario || !isGraded(scenario) || truth.strength >= STRONG;
}

export function kindTable(outcomes: readonly Outcome[]): Table {
  const cases = counted(outcomes);
  const rows = INCIDENT_KINDS.map((kind) => {
    const all = cases.flatMap(({ played, truths }) =>
      truths.filter(({ truth }) => truth.kind === kind).map((each) => ({ ...each, strong: isStrong(played, each) })),
    );
    const strong = all.filter((each) => each.strong);
    const found = all.filter((each) => each.found);
    const wrong = cases.flatMap((each) => each.wrong.filter((incident) => incident.kind === kind));
    const paging = wrong.filter(pages);
    const steps = medianAndMax(found.map(({ delaySteps }) => delaySteps));
    const seconds = medianAndMax(found.map(({ delaySeconds }) => delaySeconds));
    return [
      ...[kind, String(all.length), share(recall(found.length, all.length - found.length))],
      ...[String(strong.length), shareOf(strong, ({ found }) => found !== undefined)],
      ...[share(precision(found.length, wrong.length)), share(precision(found.length, paging.length))],
      ...[String(wrong.length), String(paging.length)],
      shareOf(found, ({ subjectRight }) => subjectRight),
      shareOf(found, ({ causeRight }) => causeRight),
      ...[`${number(steps.median)} / ${number(steps.max)}`, `${number(seconds.median)} / ${number(seconds.max)}`],
    ];
  });
  return {
    title: 'By kind',
    note: 'Faults of all strengths, look-alikes and short healthy runs. 20 %: strengths from there on, or the one strength of a scenario whose strength is no share of time. All of them count, also those that cost the job nothing. From the first step on: seen with a baseline of earlier healthy runs. Wrong: incidents that are no truth, of any severity, and of those the ones that page (warning or higher).',
    columns: [
      ...['kind', 'faults', 'recall', 'of 20 %', 'recall', 'precision', 'precision, paging', 'wrong', 'wrong, paging'],
      ...['subject right', 'cause right', 'delay, steps (median / max)', 'delay, s (median / max)'],
    ],
    rows,
  };
}

export function strengthTable(outcomes: readonly Outcome[]): Table {
  const columns = [...STRENGTHS.map((strength) => `${100 * strength} %`), "scenario's own"];
  const cases = others(outcomes).filter(({ truths }) => truths.length > 0);
  const names = [...new Set(cases.map(({ played }) => nameOf(played.options)))];
  const rows = names.map((name) => {
    const mine = cases.filter(({ played }) => nameOf(played.options) === name);
    const cells = [...STRENGTHS, undefined].map((strength) => {
      const truths = mine.filter(({ played }) => played.options.strength === strength).flatMap((each) => each.truths);
      if (truths.length === 0) return '';
      const found = truths.filter((each) => each.found);
      const { median } = medianAndMax(found.map(({ delaySteps }) => delaySteps));
      const slower = medianAndMax(truths.map(({ slowdown }) => 100 * slowdown)).median;
      const parts = [`${found.length}/${truths.length}`];
      if (found.length > 0) parts.push(`+${number(median)}`);
      if (Number.isFinite(slower)) parts.push(`job ${slower.toFixed(1)} % slower`);
      return parts.join(', ');
    });
    const fault = SCENARIOS[mine[0]?.played.options.scenario ?? '']?.fault;
    return [name, String(fault?.kind), String(fault?.strength), ...cells];
  });
  return {
    title: 'By scenario and strength of the fault',
    note: 'Faults found of all, the median delay in steps, and by how much the fault makes the job slower: from its onset on, against the same run without it.',
    columns: ['scenario', 'kind', 'own strength', ...columns],
    rows,
  };
}

const nameOf = ({ scenario, baseline }: CaseOptions): string => `${scenario}${baseline ? ' (baseline)' : ''}`;

export function confusionTable(outcomes: readonly Outcome[]): Table {
  const pairs = counted(outcomes).flatMap(({ played, truths, wrong, tolerated }): [string, string][] => {
    const row = truths[0]?.truth.kind ?? (SCENARIOS[played.options.scenario]?.lookalikeOf ? 'look-alike' : 'healthy');
    const said = [...truths.flatMap(({ found }) => (found ? [found] : [])), ...wrong, ...tolerated];
    const kinds = new Set(said.map(({ kind }) => kind));
    return kinds.size === 0 ? [[row, 'nothing']] : [...kinds].map((kind) => [row, kind]);
  });
  const counts = confusion(pairs);
  const columns = [...INCIDENT_KINDS, 'nothing'];
  const rows = [...INCIDENT_KINDS, 'look-alike', 'healthy'].filter((kind) => counts.has(kind));
  return {
    title: 'Confusion matrix',
    note: 'Rows: what was true. Columns: runs in which that kind was said, of any severity; several kinds of one run count each.',
    columns: ['', ...columns],
    rows: rows.map((row) => [row, ...columns.map((column) => String(counts.get(row)?.get(column) ?? ''))]),
  };
}

export function loadTable(outcomes: readonly Outcome[]): Table {
  const cases = loads(outcomes);
  const names = [...new Set(cases.map(({ played }) => played.options.scenario))];
  const rowOf = (name: string, mine: readonly Outcome[]): string[] => {
    const hours = mine.reduce((sum, { played }) => sum + played.gpuHours, 0);
    const steps = mine.reduce((sum, { played }) => sum + played.steps, 0);
    const wrong = mine.flatMap((each) => each.wrong);
    const paging = count(wrong, pages);
    return [
      ...[name, number(hours), String(steps), String(paging), String(wrong.length - paging)],
      String(mine.reduce((sum, { tolerated }) => sum + tolerated.length, 0)),
      ...[number((1000 * paging) / hours), number((1000 * poissonUpper(paging)) / hours)],
      ...[number((1e6 * paging) / steps), number((1e6 * poissonUpper(paging)) / steps)],
    ];
  };
  return {
    title: 'False incidents under healthy load',
    note: 'False: warning or higher; info is counted apart. Reported what is so: of kinds that the scenario really has a little of. Upper end: of the one-sided 95 % Poisson interval.',
    columns: [
      ...['scenario', 'GPU-hours', 'steps', 'false', 'false, info', 'reported what is so'],
      ...['false / 1,000 GPU-hours', 'upper end', 'false / million steps', 'upper end'],
    ],
    rows: [
      ...names.map((name) =>
        rowOf(
          name,
          cases.filter(({ played }) => played.options.scenario === name),
        ),
      ),
      rowOf('all', cases),
    ],
  };
}

/** A method of others and the detector on one kind, on the same streams. */
export interface Comparison {
  readonly method: string;
  readonly kind: IncidentKind;
  readonly faults: number;
  readonly its: Rates;
  readonly picket: Rates;
}

export interface Rates {
  readonly recall: number;
  readonly precision: number;
}

export function comparisonsOf(outcomes: readonly Outcome[], methods: readonly MethodOutcome[]): Comparison[] {
  return METHODS.flatMap((method) => {
    const said = methods.filter((each) => each.method === method.name);
    const scenarios = new Set(said.map(({ scenario }) => scenario));
    const ours = counted(outcomes).filter(({ played }) => scenarios.has(played.options.scenario));
    return method.claims.map((kind) => {
      const truths = said.flatMap((each) => each.truths.filter(({ truth }) => truth.kind === kind));
      const found = count(truths, (each) => each.found);
      const wrong = said.flatMap((each) => each.wrong.filter(({ kinds }) => kinds.includes(kind))).length;
      const mine = ours.flatMap((each) => each.truths.filter(({ truth }) => truth.kind === kind));
      const right = count(mine, namesRanks);
      const misnamed = count(mine, (each) => each.found !== undefined && !namesRanks(each));
      const its = { recall: recall(found, truths.length - found), precision: precision(found, wrong) };
      const picket = {
        recall: recall(right, mine.length - right),
        precision: precision(right, misnamed + wrongOf(ours, kind)),
      };
      return { method: method.name, kind, faults: truths.length, its, picket };
    });
  });
}

export function methodTable(outcomes: readonly Outcome[], methods: readonly MethodOutcome[]): Table {
  const rows = comparisonsOf(outcomes, methods).map(({ method, kind, faults, its, picket }) => [
    ...[method, kind, String(faults)],
    ...[share(its.recall), share(picket.recall), share(its.precision), share(picket.precision)],
    ...[share(f1(its)), share(f1(picket))],
  ]);
  return {
    title: 'What others do, on the same streams',
    note: 'Each in its straightforward form, on the kinds that it can account for and the workloads that it is made for. Where a method cannot tell kinds apart it is right if any of them is true. A fault of some ranks is found only where those ranks are named, or none; this holds for Picket here too. F1 is the harmonic mean of recall and precision.',
    columns: [
      'method',
      'kind',
      'faults',
      'its recall',
      "Picket's recall",
      'its precision',
      "Picket's precision",
      'its F1',
      "Picket's F1",
    ],
    rows,
  };
}

const namesRanks = ({ truth, found, subjectRight }: TruthOutcome): boolean =>
  found !== undefined && (truth.subject.ranks === undefined || found.subject.ranks.length === 0 || subjectRight);

const wrongOf = (outcomes: readonly Outcome[], kind: IncidentKind): number =>
  outcomes.reduce((sum, { wrong }) => sum + count(wrong, (incident) => incident.kind === kind), 0);

export const count = <T>(values: readonly T[], is: (value: T) => boolean): number => values.filter(is).length;
export const shareOf = <T>(values: readonly T[], is: (value: T) => boolean): string =>
  share(
    recall(
      count(values, is),
      count(values, (value) => !is(value)),
    ),
  );
export const share = (value: number): string => (Number.isNaN(value) ? '-' : value.toFixed(3));
export const number = (value: number): string => (Number.isFinite(value) ? String(Number(value.toPrecision(3))) : '-');
