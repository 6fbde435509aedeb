import { type Evidence, newSubject } from '../../protocol/incident.js';
import type { Finding, JobWindow } from '../detectors/finding.js';
import { ruleKey } from '../incidents/incident-book.js';
import type { StepView } from '../pipeline/step-view.js';
import type { JobTopology } from '../pipeline/topology.js';
import type { ExpressionFacts } from './expression.js';
import { NoValue, PhaseWindow } from './phase-window.js';
import type { Rule, RuleExpression } from './rule.js';

/** What expressions have found in a job. Plain data. */
export interface ExpressionState {
  /** By rule and scope: what holds. */
  readonly found: Map<string, Finding>;
  /** By rule: evaluations, those of them that had no value, and why the last of these had none. */
  readonly tallies: Map<string, { evaluated: number; withoutValue: number; reason: string }>;
}

export const newExpressionState = (): ExpressionState => ({ found: new Map(), tallies: new Map() });

/** Beyond this many numbers an evidence says no more. */
const MAX_EVIDENCE = 20;

/**
 * Evaluates the rules whose window has just been filled anew; gives all that holds.
 * @param rules by the number of steps they look at
 * @param closedSteps of the job so far
 */
export function expressionFindings(
  state: ExpressionState,
  rules: ReadonlyMap<number, readonly Rule[]>,
  window: JobWindow,
  closedSteps: number,
): Finding[] {
  forgetGone(state, rules);
  for (const [steps, ofWindow] of rules) {
    if (closedSteps % steps !== 0 || window.views.length < steps) continue;
    const perJob = new Facts(window, steps, undefined);
    for (const rule of ofWindow) if (rule.expression?.per === 'job') evaluate(state, rule, rule.expression, perJob);
    const perRank = ofWindow.filter(({ expression }) => expression?.per === 'rank');
    if (perRank.length === 0) continue;
    for (const slot of window.topology.ranks.keys()) {
      const facts = new Facts(window, steps, slot);
      for (const rule of perRank) evaluate(state, rule, rule.expression as RuleExpression, facts);
    }
  }
  return [...state.found.values()];
}

/** What a rule found is forgotten once the rule is gone, or looks at something else than it did (the job, or ranks). */
function forgetGone({ found }: ExpressionState, rules: ReadonlyMap<number, readonly Rule[]>): void {
  if (found.size === 0) return;
  const scopes = new Map([...rules.values()].flat().map(({ id, expression }) => [id, expression?.per]));
  for (const key of found.keys()) {
    const [id, slot] = key.split('|') as [string, string];
    if (scopes.get(id) !== (slot === '' ? 'job' : 'rank')) found.delete(key);
  }
}

const keyOf = (rule: string, slot: number | undefined): string => `${rule}|${slot ?? ''}`;

/** What expressions see of some steps and the job or one of its ranks; its windows are shared by all rules on these. */
class Facts implements ExpressionFacts {
  readonly now: PhaseWindow;
  readonly before: PhaseWindow;
  readonly peers: PhaseWindow;
  readonly job: string;
  readonly host: string;
  readonly rank: bigint;
  readonly stage: bigint;
  readonly ranks: bigint;
  readonly topology: JobTopology;
  readonly views: readonly StepView[];
  readonly slot: number | undefined;
  readonly hasPast: boolean;

  constructor({ topology, views }: JobWindow, steps: number, slot: number | undefined) {
    const scope = slot === undefined ? 'job' : { slot };
    const { meta, hosts, ranks, stages } = topology;
    this.topology = topology;
    this.slot = slot;
    this.views = views.slice(-steps);
    this.hasPast = views.length > steps;
    this.now = new PhaseWindow('now', this.views, scope);
    this.before = new PhaseWindow('before', views.slice(0, -steps), scope);
    this.peers = slot === undefined ? this.now : new PhaseWindow('peers', this.views, { allBut: slot });
    this.job = meta.job;
    this.host = slot === undefined ? '' : (hosts[slot] as string);
    this.rank = BigInt(slot === undefined ? -1 : (ranks[slot] as number));
    this.stage = BigInt(slot === undefined ? -1 : (stages[slot] as number));
    this.ranks = BigInt(ranks.length);
  }
}

function evaluate(state: ExpressionState, rule: Rule, expression: RuleExpression, facts: Facts): void {
  const holds = expression.holds.needsPast && !facts.hasPast ? NO_PAST : holdsNow(expression, facts);
  count(state, rule.id, holds);
  if (holds === true) {
    const key = keyOf(rule.id, facts.slot);
    state.found.set(key, findingOf(rule, expression, facts, state.found.get(key)));
  } else if (state.found.size > 0 && (holds === false || rule.noData === 'resolve'))
    state.found.delete(keyOf(rule.id, facts.slot));
}

const NO_PAST = 'there are no steps before the window yet';

function count({ tallies }: ExpressionState, rule: string, holds: boolean | string): void {
  let tally = tallies.get(rule);
  if (!tally) tallies.set(rule, (tally = { evaluated: 0, withoutValue: 0, reason: '' }));
  tally.evaluated++;
  if (typeof holds !== 'string') return;
  tally.withoutValue++;
  tally.reason = holds;
}

/** Whether the expression is true, or why it has no value. So it is where its cost has none. */
function holdsNow({ holds, costMs }: RuleExpression, facts: ExpressionFacts): boolean | string {
  try {
    if (!holds(facts)) return false;
    costMs?.(facts);
    return true;
  } catch (error) {
    if (error instanceof NoValue) return error.message;
    throw error;
  }
}

function findingOf(rule: Rule, expression: RuleExpression, facts: Facts, before: Finding | undefined): Finding {
  const { topology, views, slot } = facts;
  const { meta, ranks } = topology;
  const first = views[0] as StepView;
  const rank = slot === undefined ? undefined : (ranks[slot] as number);
  const lostMs = expression.costMs?.(facts) ?? 0;
  const evidence = evidenceOf(expression, facts);
  const who = rank === undefined ? '' : ` on rank ${rank}`;
  const gpuSeconds = (lostMs * expression.window * (rank === undefined ? ranks.length : 1)) / 1e3;
  return {
    kind: rule.kind,
    key: ruleKey(rule.id, rank === undefined ? '' : `rank=${rank}`),
    subject: newSubject(meta.job, meta.run, {
      ranks: rank === undefined ? [] : [rank],
      hosts: facts.host ? [facts.host] : [],
    }),
    cause: expression.cause,
    summary: `${expression.text.trim().replace(/\s+/g, ' ')}${who} in ${views.length} steps`,
    onsetStep: before?.onsetStep ?? first.step,
    onsetNs: before?.onsetNs ?? first.startNs,
    cost: {
      ms_per_step: rounded(lostMs),
      step_fraction: rounded(lostMs / facts.now.step.mean_ms),
      gpu_seconds: rounded((before?.cost.gpu_seconds ?? 0) + gpuSeconds),
    },
    confidence: 1,
    evidence,
    runnerUp: null,
  };
}

/** The numbers that the expression read. */
function evidenceOf(expression: RuleExpression, facts: ExpressionFacts): Evidence {
  const evidence: Evidence = {};
  const windows = [facts.now, facts.before, facts.peers];
  for (const window of windows)
    window.record((name, value) => {
      if (Object.keys(evidence).length < MAX_EVIDENCE) evidence[name] = rounded(value);
    });
  expression.holds(facts);
  for (const window of windows) window.record(undefined);
  return evidence;
}

const rounded = (value: number): number => Math.round(value * 1e4) / 1e4;
