import type { JobMeta } from '../protocol/job-meta.js';
import { MAX_MESSAGE_ROWS } from '../protocol/limits.js';
import { type PhaseBatch, PhaseBatchBuilder, type PhaseRow } from '../protocol/phase-batch.js';
import { KIND, OPS } from '../protocol/vocabulary.js';
import type { GpuEvent, GpuEvents } from './gpu-events.js';
import { type Iteration, type LaunchTimes, numbered, type ServingWork } from './serving-steps.js';

/** A step as the profiler marks it on the host. */
export interface StepMark {
  readonly step: number;
  readonly startNs: bigint;
  readonly durNs: bigint;
}

export interface GpuTrace {
  readonly events: GpuEvents;
  /** Empty: the whole trace is step 0. */
  readonly steps: readonly StepMark[];
  /** Of a serving engine, which count for more than the profiler's steps. */
  readonly iterations: readonly Iteration[];
  readonly launches: LaunchTimes;
  /** Correlations of launches of whole graphs. */
  readonly graphLaunches: ReadonlySet<number>;
  /** The trace holds launches at all, so that a kernel without one of a graph was launched alone. */
  readonly launchesSeen: boolean;
  readonly rank: number;
  /** Added to every time. */
  readonly baseNs: bigint;
}

/**
 * Rows of each step: the step itself, one of all its computing, one a collective, one of the copies each way. What belongs to
 * no step is counted through `outside`.
 */
export function* gpuStepRows(trace: GpuTrace, meta: JobMeta, outside: (count: number) => void): Generator<PhaseBatch> {
  const rows = new PhaseBatchBuilder(meta, 64);
  const serves = trace.iterations.length > 0 && trace.launchesSeen;
  for (const work of serves ? workByLaunch(trace, outside) : workByTime(trace, outside))
    for (const row of work.rows()) {
      rows.push(row);
      if (rows.length === MAX_MESSAGE_ROWS) yield rows.take();
    }
  yield rows.take();
}

/** Work belongs to the step in which it started on the GPU, between two steps to the earlier one. */
function* workByTime(trace: GpuTrace, outside: (count: number) => void): Generator<StepWork> {
  const { events } = trace;
  const order = events.byStart();
  const steps = trace.steps.length > 0 ? mergedSteps(trace.steps) : wholeTrace(events, order);
  const from = countBefore(events, order, steps[0]?.startNs ?? 0n);
  let next = from;
  for (const [s, mark] of steps.entries()) {
    const end = steps[s + 1]?.startNs ?? mark.startNs + mark.durNs + 1n;
    const work = new StepWork(trace, mark);
    for (; next < order.length; next++) {
      const event = events.at(order[next] as number);
      if (event.startNs >= end) break;
      work.add(event);
    }
    yield work;
  }
  if (from + order.length - next > 0) outside(from + order.length - next);
}

/**
 * Work belongs to the iteration that was the latest when the host launched it; without a launch that is known, to that of the
 * work before it. A step lasts from the first of its work to the last: the host may be iterations ahead of the GPU.
 */
function workByLaunch(trace: GpuTrace, outside: (count: number) => void): StepWork[] {
  const { events } = trace;
  const iterations = numbered(trace.iterations, trace.steps);
  const starts = iterations.map(({ startNs }) => Number(startNs));
  const works = iterations.map((iteration) => new StepWork(trace, iteration));
  const launchedNs = trace.launches.byCorrelation();
  let [latest, strays] = [-1, 0];
  for (const i of events.byStart()) {
    const event = events.at(i);
    const launched = launchedNs.get(event.correlation);
    if (launched !== undefined) latest = lastAtOrBefore(starts, launched);
    const work = works[latest];
    if (work) work.add(event);
    else strays++;
  }
  if (strays > 0) outside(strays);
  return works.filter(({ isEmpty }) => !isEmpty);
}

/** Of ascending values; -1: all are above. */
function lastAtOrBefore(values: readonly number[], value: number): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((values[middle] as number) <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function countBefore(events: GpuEvents, order: Uint32Array, startNs: bigint): number {
  const first = order.findIndex((i) => events.at(i).startNs >= startNs);
  return first < 0 ? order.length : first;
}

/** By start; marks of one step number (of several threads) as one. */
function mergedSteps(marks: readonly StepMark[]): StepMark[] {
  const steps = new Map<number, StepMark>();
  for (const mark of [...marks].sort((a, b) => Number(a.startNs - b.startNs))) {
    const known = steps.get(mark.step);
    const end = mark.startNs + mark.durNs;
    if (!known) steps.set(mark.step, mark);
    else if (end > known.startNs + known.durNs) steps.set(mark.step, { ...known, durNs: end - known.startNs });
  }
  return [...steps.values()];
}

function wholeTrace(events: GpuEvents, order: Uint32Array): StepMark[] {
  const [first] = order;
  if (first === undefined) return [];
  const { startNs } = events.at(first);
  let durNs = 0;
  for (const i of order) durNs = Math.max(durNs, Number(events.at(i).startNs - startNs) + events.at(i).durNs);
  return [{ step: 0, startNs, durNs: BigInt(durNs) }];
}

const OP_NAMES: ReadonlySet<string> = new Set(OPS);

/** A step as it is marked on the host, or an iteration, which begins and ends with its work. */
type WorkMark = (StepMark & { readonly work?: undefined }) | { readonly step: number; readonly work: ServingWork };

/** What one rank's GPU did in one step. */
class StepWork {
  readonly #trace: GpuTrace;
  readonly #mark: WorkMark;
  readonly #compute = new BusyTime();
  readonly #copies = { h2d: new BusyTime(), d2h: new BusyTime() };
  readonly #collectives: GpuEvent[] = [];
  readonly #graphLaunches = new Set<number>();
  #kernels = 0;
  #kernelsOfGraphs = 0;
  #singleLaunches = 0;
  #firstNs: bigint | undefined;
  /** From the first of its work to the last. */
  #spanNs = 0;

  constructor(trace: GpuTrace, mark: WorkMark) {
    this.#trace = trace;
    this.#mark = mark;
  }

  get isEmpty(): boolean {
    return this.#firstNs === undefined;
  }

  /** Events must come by start. */
  add(event: GpuEvent): void {
    const { work, startNs, durNs } = event;
    this.#firstNs ??= startNs;
    this.#spanNs = Math.max(this.#spanNs, Number(startNs - this.#firstNs) + durNs);
    if (work === 'h2d' || work === 'd2h') this.#copies[work].add(event);
    else if (work === 'collective') this.#collectives.push(event);
    else this.#compute.add(event);
    if (work === 'kernel' || work === 'collective') this.#countLaunch(event);
  }

  #countLaunch({ work, correlation }: GpuEvent): void {
    this.#kernels++;
    if (this.#trace.graphLaunches.has(correlation)) {
      this.#kernelsOfGraphs++;
      this.#graphLaunches.add(correlation);
    } else if (work === 'kernel') this.#singleLaunches++;
  }

  *rows(): Generator<PhaseRow> {
    const { step, work } = this.#mark;
    const { startNs, durNs } = work ? { startNs: this.#firstNs ?? 0n, durNs: this.#spanNs } : this.#mark;
    const common = { rank: this.#trace.rank, step, graph: this.#graph(), ...work };
    const at = (ns: bigint) => ns + this.#trace.baseNs;
    yield { ...common, phase: 'step', kind: KIND.step, start_ns: at(startNs), dur_ns: durNs };
    if (this.#compute.count > 0) {
      const { first, busy, count, max } = this.#compute;
      const launches = this.#singleLaunches + this.#graphLaunches.size;
      const work = { count, max_ns: max, busy_ns: busy, launches };
      yield { ...common, ...work, phase: 'compute', kind: KIND.compute, start_ns: at(first), dur_ns: busy };
    }
    for (const phase of ['h2d', 'd2h'] as const) {
      const { first, busy, count, max, bytes } = this.#copies[phase];
      if (count === 0) continue;
      yield { ...common, phase, kind: KIND.memory, start_ns: at(first), dur_ns: busy, count, max_ns: max, bytes };
    }
    const seqs = new Map<string, number>();
    for (const { collective, startNs, durNs } of this.#collectives) {
      const { phase = 'collective', group = '', bytes = 0 } = collective ?? {};
      const seq = seqs.get(group) ?? 0;
      seqs.set(group, seq + 1);
      const op = OP_NAMES.has(phase) ? phase : '';
      yield { ...common, phase, kind: KIND.comm, op, group, seq, bytes, start_ns: at(startNs), dur_ns: durNs };
    }
  }

  /** 1: most kernels came from graph launches, 0: most were launched one by one, -1: the trace does not say. */
  #graph(): number {
    if (!this.#trace.launchesSeen || this.#kernels === 0) return -1;
    return 2 * this.#kernelsOfGraphs > this.#kernels ? 1 : 0;
  }
}

/** The union of intervals: kernels overlap, also on one stream. */
class BusyTime {
  first = 0n;
  busy = 0;
  count = 0;
  max = 0;
  bytes = 0;
  /** Since `first`. */
  #end = 0;

  add({ startNs, durNs, bytes }: GpuEvent): void {
    if (this.count === 0) this.first = startNs;
    const start = Number(startNs - this.first);
    this.busy += Math.max(0, start + durNs - Math.max(start, this.#end));
    this.#end = Math.max(this.#end, start + durNs);
    this.count++;
    this.max = Math.max(this.max, durNs);
    this.bytes += bytes;
  }
}
