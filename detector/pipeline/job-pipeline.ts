import type { Int64 } from '../../protocol/int64.js';
import type { JobMeta } from '../../protocol/job-meta.js';
import type { PhaseBatch } from '../../protocol/phase-batch.js';
import type { RowChecks } from '../../protocol/phase-checks.js';
import { DETECTORS } from '../detectors/all.js';
import { countBad, type QualityCounts, qualityFindings } from '../detectors/data-quality.js';
import { WINDOW_STEPS } from '../detectors/finding.js';
import { follow, type IncidentBook, type Transition } from '../incidents/incident-book.js';
import { Assembler, type AssemblerState, baseOf, type ClosedStep, newAssemblerState } from './assembler.js';
import { decompose, type StepEnds } from './decompose.js';
import type { StepView } from './step-view.js';
import { type JobTopology, newTopology } from './topology.js';

/** State of one job and run as plain data; rows of steps that have not closed are not in it, they are read again. */
export interface JobState {
  topology: JobTopology;
  assembler: AssemblerState;
  base: Int64 | null;
  ends: StepEnds['ends'];
  views: StepView[];
  /** By detector name. */
  detectors: Map<string, unknown>;
  book: IncidentBook;
  quality: QualityCounts;
  qualityBook: IncidentBook;
}

export const newJobState = (meta: JobMeta): JobState => ({
  topology: newTopology(meta),
  assembler: newAssemblerState(),
  base: null,
  ends: new Map(),
  views: [],
  detectors: new Map(DETECTORS.map(({ name, detector }) => [name, detector.initial()])),
  book: new Map(),
  quality: new Map(),
  qualityBook: new Map(),
});

/** One job and run: rows -> steps -> decomposition -> window -> detectors -> incidents. */
export class JobPipeline {
  readonly state: JobState;
  readonly assembler: Assembler;

  constructor(state: JobState) {
    this.state = state;
    this.assembler = new Assembler(state.topology, state.assembler);
  }

  /** Takes in a message's good rows. `again`: it was taken in before a restart, and only its open steps are needed. */
  add(batch: PhaseBatch, checks: RowChecks, place: string, again: boolean, offset: bigint): void {
    const { state } = this;
    state.base ??= baseOf(batch, checks.keep);
    const { late } = state.assembler.counts;
    this.assembler.add(batch, checks.keep, again, offset);
    if (again) return;
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
  }

  /** Judges all that waits, complete or not: the end of a file, or a job gone silent. */
  *flush(): Generator<Transition> {
    const { counts } = this.state.assembler;
    const { farAhead } = counts;
    for (const closed of this.assembler.closeAll()) yield* this.#judge(closed);
    if (counts.farAhead > farAhead) this.countBad('far_ahead', counts.farAhead - farAhead, '');
    yield* this.#followQuality(this.state.views.at(-1));
  }

  #judge({ rows, live }: ClosedStep): Transition[] {
    const { topology, ends, views, detectors, book } = this.state;
    const view = decompose(rows, topology, { base: this.state.base as Int64, ends }, live);
    views.push(view);
    if (views.length > WINDOW_STEPS) views.shift();
    const window = { topology, views };
    const findings = DETECTORS.flatMap(({ name, detector }) => detector.step(detectors.get(name), window));
    return [...follow(book, findings, view.step, view.startNs), ...this.#followQuality(view)];
  }

  #followQuality(view: StepView | undefined): Transition[] {
    const { quality, qualityBook, topology, assembler } = this.state;
    const now = view?.startNs ?? 0n;
    const findings = qualityFindings(quality, topology.meta.job, topology.meta.run, assembler.counts.steps, now);
    return follow(qualityBook, findings, view?.step ?? 0, now);
  }
}
