import type { Int64 } from '../../protocol/int64.js';
import type { JobMeta } from '../../protocol/job-meta.js';
import type { PhaseBatch } from '../../protocol/phase-batch.js';
import type { RowChecks } from '../../protocol/phase-checks.js';
import type { Baseline } from '../baseline/baseline.js';
import { populationKey, populationName } from '../baseline/population-key.js';
import { corroborate } from '../counters/corroborate.js';
import { advance, type Counters, newCounters } from '../counters/counters.js';
import { DETECTORS, explained } from '../detectors/all.js';
import { hangingCollectives, newestOf, newOpenPhases, noteOpen, type OpenPhases } from '../detectors/comm-hang.js';
import { countBad, type QualityCounts, qualityFindings } from '../detectors/data-quality.js';
import { type ExpectedState, slowGroups } from '../detectors/expected-transfers.js';
import { type Finding, WINDOW_STEPS } from '../detectors/finding.js';
import { type TransferState, usualTransfers } from '../detectors/slow-transfers.js';
import { type Holds, newHolds } from '../incidents/holds.js';
import {
  follow,
  type IncidentBook,
  resolveAll,
  resolveSilent,
  revise,
  type Transition,
} from '../incidents/incident-book.js';
import type { EarlierTransfers } from '../reference/transfer-past.js';
import { type ExpressionState, expressionFindings, newExpressionState } from '../rules/expression-findings.js';
import type { JobPolicy } from '../rules/job-rules.js';
import { BUILT_IN_RULES, type RulesInForce } from '../rules/rules-in-force.js';
import { Assembler, type AssemblerState, baseOf, type ClosedStep, newAssemblerState } from './assembler.js';
import { decompose, type StepEnds } from './decompose.js';
import { forgetIncomplete } from './lost-rows.js';
import { type StepView, stepTimeOf } from './step-view.js';
import { type JobTopology, newTopology } from './topology.js';

/** State of one job and run as plain data; rows of steps that have not closed are not in it, they are read again. */
export interface JobState {
  topology: JobTopology;
  assembler: AssemblerState;
  base: Int64 | null;
  ends: StepEnds['ends'];
  views: StepView[];
  /** See JobWindow. */
  earlier: EarlierTransfers | undefined;
  /** By detector name. */
  detectors: Map<string, unknown>;
  expressions: ExpressionState;
  book: IncidentBook;
  holds: Holds;
  open: OpenPhases;
  hangBook: IncidentBook;
  hangHolds: Holds;
  quality: QualityCounts;
  qualityBook: IncidentBook;
  qualityHolds: Holds;
}

/** @param before the job's attempt before this one */
export const newJobState = (meta: JobMeta, before?: JobState): JobState => ({
  topology: newTopology(meta),
  assembler: newAssemblerState(),
  base: null,
  ends: new Map(),
  views: [],
  earlier: before && earlierOf(before, meta),
  detectors: new Map(DETECTORS.map(({ name, detector }) => [name, detector.initial()])),
  expressions: newExpressionState(),
  book: new Map(),
  holds: newHolds(),
  open: newOpenPhases(),
  hangBook: new Map(),
  hangHolds: newHolds(),
  quality: new Map(),
  qualityBook: new Map(),
  qualityHolds: newHolds(),
});

/** What a job's next attempt can expect, if it is set up alike: of groups that are slow now, what went before. */
function earlierOf({ topology, detectors, earlier }: JobState, meta: JobMeta): EarlierTransfers | undefined {
  if (populationName(populationKey(topology.meta)) !== populationName(populationKey(meta))) return undefined;
  const slow = slowGroups(detectors.get('expected-transfers') as ExpectedState);
  const known = usualTransfers(detectors.get('slow-transfers') as TransferState);
  return new Map([...(earlier ?? []), ...[...known].filter(([, { group }]) => !slow.has(group))]);
}

function ranksOf(view: StepView, topology: JobTopology, group: string): number[] {
  const { slots = [] } = view.groups.find(({ name }) => name === group) ?? {};
  return slots.map((slot) => topology.ranks[slot] as number);
}

/** One job and run: rows -> steps -> decomposition -> window -> detectors -> incidents. */
export class JobPipeline {
  readonly state: JobState;
  readonly assembler: Assembler;
  readonly #rules: RulesInForce;
  readonly #baseline: Baseline | undefined;
  readonly #counters: Counters;
  #policy: { set: RulesInForce['current']; policy: JobPolicy } | undefined;

  /** @param counters of the job, whatever its run: the pipeline only reads them */
  constructor(
    state: JobState,
    rules: RulesInForce = BUILT_IN_RULES,
    baseline?: Baseline,
    counters: Counters = newCounters(),
  ) {
    this.state = state;
    this.#counters = counters;
    this.#rules = rules;
    this.#baseline = baseline;
    this.assembler = new Assembler(state.topology, state.assembler);
  }

  /** Takes in a message's good rows. `again`: it was taken in before a restart, and only its open steps are needed. */
  add(batch: PhaseBatch, checks: RowChecks, place: string, again: boolean, offset: bigint): void {
    const { state } = this;
    state.base ??= baseOf(batch, checks.keep);
    const { late } = state.assembler.counts;
    this.assembler.add(batch, checks.keep, again, offset);
    if (again) return;
    noteOpen(state.open, batch, checks.keep, state.topology);
    for (const [reason, { count, firstRow }] of checks.dropped)
      this.countBad(reason, count, `${place} row ${firstRow}`);
    if (state.assembler.counts.late > late) this.countBad('late', state.assembler.counts.late - late, place);
  }

  /** Counts records of the job that were lost before they became rows. */
  countBad(reason: string, count: number, place: string): void {
    countBad(this.state.quality, reason, count, place, this.state.assembler.counts.steps);
  }

  /** Judges the steps that have become complete. */
  *close(): Generator<Transition> {
    for (const closed of this.assembler.close()) yield* this.#judge(closed);
    yield* this.#followHangs();
  }

  /** Judges all that waits, complete or not: the end of a file, or a job gone silent. */
  *flush(): Generator<Transition> {
    const { counts } = this.state.assembler;
    const { farAhead } = counts;
    for (const closed of this.assembler.closeAll()) yield* this.#judge(closed);
    if (counts.farAhead > farAhead) this.countBad('far_ahead', counts.farAhead - farAhead, '');
    yield* this.#followQuality(this.state.views.at(-1));
  }

  /** Judges open incidents anew: the rules have changed. */
  revise(): Transition[] {
    const { book, holds, hangBook, hangHolds, qualityBook, qualityHolds } = this.state;
    const [policy, now] = [this.#policyNow(), this.#newest()];
    return [
      ...revise(book, now, policy, holds),
      ...revise(hangBook, now, policy, hangHolds),
      ...revise(qualityBook, now, policy, qualityHolds),
    ];
  }

  /** Resolves what its rule does not keep open without data. */
  resolveSilent(): Transition[] {
    return resolveSilent(this.state.book, this.#newest(), this.#policyNow(), this.state.holds);
  }

  /** Ends all that is open: the job is not followed any more. */
  resolveAll(): Transition[] {
    const { book, holds, hangBook, hangHolds, qualityBook, qualityHolds } = this.state;
    const [policy, now] = [this.#policyNow(), this.#newest()];
    return [
      ...resolveAll(book, now, policy, holds),
      ...resolveAll(hangBook, now, policy, hangHolds),
      ...resolveAll(qualityBook, now, policy, qualityHolds),
    ];
  }

  #newest(): { step: number; ns: bigint } {
    const view = this.state.views.at(-1);
    return { step: view?.step ?? 0, ns: view?.startNs ?? 0n };
  }

  /** What the rules in force say of this job. */
  #policyNow(): JobPolicy {
    const { current } = this.#rules;
    if (this.#policy?.set !== current)
      this.#policy = { set: current, policy: current.forJob(this.state.topology.meta) };
    return this.#policy.policy;
  }

  #judge({ rows, live }: ClosedStep): Transition[] {
    const { topology, ends, views, detectors, expressions, book, holds, assembler } = this.state;
    const policy = this.#policyNow();
    const view = decompose(rows, topology, { base: this.state.base as Int64, ends }, live);
    this.assembler.reuse(rows);
    if (forgetIncomplete(view, views) && view.missing.length === 0) assembler.counts.partialSteps++;
    views.push(view);
    const [odd] = view.otherClock;
    if (odd !== undefined) this.countBad('other_clock', view.otherClock.length, `rank ${odd}`);
    if (views.length > WINDOW_STEPS) views.shift();
    const counters = this.#counters;
    advance(counters, view.startNs + BigInt(Math.round(stepTimeOf(view))));
    const expectations = this.#baseline?.population(topology.meta);
    const window = { topology, views, expectations, earlier: this.state.earlier, counters };
    const found: Finding[] = [];
    for (const { name, detector } of DETECTORS)
      for (const finding of detector.step(detectors.get(name), window, policy.params)) found.push(finding);
    const findings = corroborate(
      explained(found, (group) => ranksOf(view, topology, group)),
      window,
    );
    findings.push(...expressionFindings(expressions, policy.expressions, window, assembler.counts.steps));
    return [...follow(book, findings, view.step, view.startNs, policy, holds), ...this.#followQuality(view)];
  }

  /** What hangs keeps its step from closing, so that it is followed by messages and not by steps. */
  #followHangs(): Transition[] {
    const { open, hangBook, hangHolds, topology, views } = this.state;
    if (open.phases.size === 0 && hangBook.size === 0) return [];
    const { step, ns } = newestOf(open) ?? this.#newest();
    const policy = this.#policyNow();
    const [counters, window] = [this.#counters, { topology, views }];
    advance(counters, ns);
    const findings = corroborate(hangingCollectives(open, window, policy.params), { ...window, counters });
    return follow(hangBook, findings, step, ns, policy, hangHolds);
  }

  #followQuality(view: StepView | undefined): Transition[] {
    const { quality, qualityBook, qualityHolds, topology, assembler } = this.state;
    const now = view?.startNs ?? 0n;
    const findings = qualityFindings(quality, topology.meta.job, topology.meta.run, assembler.counts.steps, now);
    return follow(qualityBook, findings, view?.step ?? 0, now, this.#policyNow(), qualityHolds);
  }
}
