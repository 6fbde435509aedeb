import type { Baseline } from '../detector/baseline/baseline.js';
import { type CaseOptions, isHealthyLoad, needsBaseline } from './cases.js';
import { failuresOf } from './failures.js';
import { learnBaseline } from './learn.js';
import { sectionOf } from './markdown.js';
import { GRACE_STEPS } from './match.js';
import { type Played, play, timeWithoutFault } from './play.js';
import { METHODS } from './reference/all.js';
import { judge, type Outcome } from './score.js';
import { judgeMethod, type MethodOutcome } from './score-methods.js';
import { confusionTable, kindTable, loadTable, methodTable, strengthTable } from './tables.js';
import { targetTable } from './targets.js';

export interface Scores {
  readonly outcomes: readonly Outcome[];
  readonly methods: readonly MethodOutcome[];
}

/** Plays cases one by one and judges the detector and the methods of others on each. */
export async function runCases(cases: readonly CaseOptions[]): Promise<Scores> {
  const outcomes: Outcome[] = [];
  const methods: MethodOutcome[] = [];
  const twins = newTwins();
  const baselines = newBaselines();
  for (const options of cases) {
    // Healthy load is long: what the methods look at would not fit into memory. Others are asked once for each run.
    const wants = !isHealthyLoad(options.scenario) && needsBaseline(options.scenario) === (options.baseline === true);
    const played = play(options, wants, await baselines(options));
    const outcome = judge(played, twins(options, played));
    outcomes.push(outcome);
    if (wants) methods.push(...METHODS.flatMap((method) => judgeMethod(method, played) ?? []));
  }
  return { outcomes, methods };
}

/** Baselines of cases that want one; it serves all strengths, which follow each other. */
function newBaselines(): (options: CaseOptions) => Promise<Baseline | undefined> {
  let key = '';
  let learnt: Baseline | undefined;
  return async ({ baseline, strength, ...options }) => {
    if (!baseline) return undefined;
    const wanted = JSON.stringify(options);
    if (key !== wanted) learnt = await learnBaseline(options);
    key = wanted;
    return learnt;
  };
}

/** Healthy twins of cases; one serves all strengths, which follow each other. */
function newTwins(): (options: CaseOptions, played: Played) => Played['timeFrom'] | undefined {
  let key = '';
  let times: Played['timeFrom'] | undefined;
  return (options, { truths }) => {
    const [truth] = truths;
    // A hang has no strength, and no end.
    if (!truth || truth.kind === 'comm_hang') return undefined;
    const wanted = JSON.stringify({ ...options, strength: undefined, baseline: undefined });
    if (key !== wanted) times = timeWithoutFault(options);
    key = wanted;
    return times;
  };
}

/** The scoreboard's tables as Markdown: the same scores give the same text. */
export function tablesText({ outcomes, methods }: Scores): string {
  return [
    targetTable(outcomes, methods),
    kindTable(outcomes),
    strengthTable(outcomes),
    loadTable(outcomes),
    confusionTable(outcomes),
    methodTable(outcomes, methods),
  ]
    .map(sectionOf)
    .join('\n');
}

export function failuresText(outcomes: readonly Outcome[]): string {
  const lines = outcomes.flatMap(failuresOf).map((line) => `- ${line.replaceAll('|', '\\|')}`);
  return ['## Every miss and every wrong incident', '', ...(lines.length > 0 ? lines : ['None.']), ''].join('\n');
}

export const RULES_TEXT = `## How it is counted

- A reported incident is right if its job, attempt and kind are those of a fault and it was detected while the fault
  lasted or in the ${GRACE_STEPS} steps after. The first right one finds the fault, more of the same count nothing, all others are
  wrong. No point-adjusted scores: a fault counts once, however long it lasts.
- Precision is faults found over faults found and wrong incidents; recall is faults found over faults.
- A subject is right if ranks, stage, communicator, NIC, GPU and hosts agree with the truth as far as both name them, and both
  name one at least; that of a fault of the whole job, if it names no stage and not just some of the ranks.
- Delay runs from the first faulty step to the step in which the fault was detected; in seconds from the begin of the one to the
  time of the other.
- Runs of variable lengths are uneven in truth: load_imbalance said of them is no false alarm and counts as reported what is so.
- Incidents count with what they said when they were opened, and with the worst severity that they came to.

### The methods of others

${METHODS.map(({ name, rule }) => `- ${name}: ${rule}`).join('\n')}
`;
