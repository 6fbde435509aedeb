import { INCIDENT_KINDS } from '../protocol/incident.js';
import { SCENARIOS } from '../simulator/simulate.js';
import { f1, medianAndMax, poissonUpper, precision, recall } from './metrics.js';
import type { Outcome, TruthOutcome } from './score.js';
import type { MethodOutcome } from './score-methods.js';
import { comparisonsOf, count, counted, isStrong, loads, number, pages, share, type Table } from './tables.js';

/** What the detectors are meant to reach, and what this run measured. */
export function targetTable(outcomes: readonly Outcome[], methods: readonly MethodOutcome[]): Table {
  return {
    title: 'Targets',
    note: 'Recall of kinds: of faults of 20 % or more, as in the next table. Stragglers: slow GPU, process or input of one rank, in training and serving.',
    columns: ['target', 'measured', 'reached'],
    rows: [
      ...kindTargets(outcomes),
      ...stragglerTargets(outcomes),
      falseAlarmTarget(outcomes),
      methodTarget(outcomes, methods),
    ],
  };
}

const row = (target: string, measured: string, reached: boolean): string[] => [
  target,
  measured,
  reached ? 'yes' : 'no',
];

/** The kinds that fall short are named. */
function kindTargets(outcomes: readonly Outcome[]): string[][] {
  const cases = counted(outcomes);
  const measured = INCIDENT_KINDS.flatMap((kind) => {
    const truths = cases.flatMap(({ played, truths }) =>
      truths.filter(({ truth }) => truth.kind === kind).map((each) => ({ ...each, strong: isStrong(played, each) })),
    );
    if (truths.length === 0) return [];
    const strong = truths.filter((each) => each.strong);
    const found = truths.filter((each) => each.found);
    const wrong = cases.reduce((sum, each) => sum + count(each.wrong, (incident) => incident.kind === kind), 0);
    return [{ kind, recall: rate(strong), precision: precision(found.length, wrong), found }];
  });
  const below = (name: 'recall' | 'precision'): string[] =>
    measured.filter((each) => each[name] < 0.98).map((each) => `${each.kind} ${share(each[name])}`);
  const found = measured.flatMap((each) => each.found);
  const subject = recall(
    count(found, ({ subjectRight }) => subjectRight),
    count(found, ({ subjectRight }) => !subjectRight),
  );
  const [recalls, precisions] = [below('recall'), below('precision')];
  return [
    row('recall of every kind 0.98', recalls.join(', ') || 'all', recalls.length === 0),
    row('precision of every kind 0.98', precisions.join(', ') || 'all', precisions.length === 0),
    row('subject right 0.99', share(subject), subject >= 0.99),
  ];
}

const rate = (truths: readonly TruthOutcome[]): number => {
  const found = count(truths, (each) => each.found !== undefined);
  return recall(found, truths.length - found);
};

function stragglerTargets(outcomes: readonly Outcome[]): string[][] {
  const of = (strength: number, variable: boolean): TruthOutcome[] =>
    counted(outcomes)
      .filter(({ played: { options } }) => {
        const scenario = SCENARIOS[options.scenario];
        const varies = scenario?.workload === 'training' && scenario.lengths !== undefined;
        const { kind, target, effect } = scenario?.fault ?? {};
        const plain = kind === 'straggler' && target === 'rank' && effect !== 'memory';
        return plain && options.strength === strength && varies === variable;
      })
      .flatMap(({ truths }) => truths);
  const recallRow = (name: string, truths: readonly TruthOutcome[], least: number): string[] =>
    row(`${name} ${least}`, `${share(rate(truths))} of ${truths.length}`, rate(truths) >= least);
  const delay = medianAndMax(
    [...of(0.2, false), ...of(0.2, true)].flatMap(({ found, delaySteps }) => (found ? [delaySteps] : [])),
  ).median;
  return [
    recallRow('recall of 10 % stragglers, equal shapes', of(0.1, false), 0.95),
    recallRow('recall of 10 % stragglers, variable lengths', of(0.1, true), 0.9),
    recallRow('recall of 5 % stragglers, equal shapes', of(0.05, false), 0.9),
    row('20 % stragglers named within 3 steps (median)', number(delay), delay <= 3),
  ];
}

function falseAlarmTarget(outcomes: readonly Outcome[]): string[] {
  const cases = loads(outcomes);
  const hours = cases.reduce((sum, { played }) => sum + played.gpuHours, 0);
  const wrong = cases.reduce((sum, each) => sum + count(each.wrong, pages), 0);
  const upper = (1000 * poissonUpper(wrong)) / hours;
  const measured = `${wrong} in ${number(hours)} GPU-hours, at most ${number(upper)}`;
  return row('false incidents per 1,000 GPU-hours of healthy load at most 0.1 (95 %)', measured, upper <= 0.1);
}

function methodTarget(outcomes: readonly Outcome[], methods: readonly MethodOutcome[]): string[] {
  const behind = comparisonsOf(outcomes, methods)
    .filter(({ faults, its, picket }) => faults > 0 && f1(picket) <= f1(its))
    .map(({ method, kind, its, picket }) => `${method} on ${kind} (${share(f1(its))} to ${share(f1(picket))})`);
  return row('F1 above that of each other method', behind.join(', ') || 'all', behind.length === 0);
}
