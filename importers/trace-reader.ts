import { PicketError } from '../protocol/errors.js';
import { type JobMeta, newJobMeta } from '../protocol/job-meta.js';
import { MAX_DURATION_NS } from '../protocol/limits.js';
import type { PhaseBatch } from '../protocol/phase-batch.js';
import type { RowFault } from '../protocol/phase-checks.js';
import { type Role, roleOf, stepOfMark, type TraceEvent } from './chrome-events.js';
import { collectiveOf, rankList } from './collective-kernels.js';
import { type DurationMark, DurationPairs } from './duration-pairs.js';
import { GpuEvents, workOf } from './gpu-events.js';
import { gpuStepRows, type StepMark } from './gpu-steps.js';
import type { ReadContext } from './importer.js';
import { stampOf } from './nanoseconds.js';
import { PhaseEvents } from './phase-events.js';
import { type Iteration, LaunchTimes, type ServingWork, servingWorkOf } from './serving-steps.js';
import { TimelineEvents } from './timeline-events.js';
import type { TraceHandler } from './trace-scanner.js';

/** Gathers from the events of one trace what becomes rows; the rest is forgotten as it passes. */
export class TraceReader implements TraceHandler {
  /** The fields beside the events that matter. */
  static readonly FIELDS: ReadonlySet<string> = new Set(['distributedInfo', 'baseTimeNanoseconds', 'deviceProperties']);
  readonly #path: string;
  readonly #context: ReadContext;
  readonly #gpu = new GpuEvents();
  readonly #steps: StepMark[] = [];
  readonly #iterations: Iteration[] = [];
  readonly #launches = new LaunchTimes();
  readonly #graphLaunches = new Set<number>();
  readonly #threads = new Map<string, DurationPairs<BegunEvent>>();
  readonly #timeline = new TimelineEvents();
  /** undefined once the profiler's own events show that names are not phases. */
  #phases: PhaseEvents | undefined = new PhaseEvents();
  #launchesSeen = false;
  #baseNs = 0n;
  #device: string | undefined;
  #gpuIndex: number | undefined;
  /** Communicators of collectives, with their ranks where the kernels say them; and what the trace's head declares. */
  readonly #groups = new Map<string, readonly number[] | undefined>();
  readonly #declaredGroups = new Map<string, readonly number[]>();
  /** As the trace itself says. */
  rank: number | undefined;

  constructor(path: string, context: ReadContext) {
    this.#path = path;
    this.#context = context;
  }

  field(name: string, text: string, offset: number): void {
    const value = parse(text, offset);
    if (name === 'baseTimeNanoseconds') this.#baseNs = integerOf(name, text, offset);
    if (name === 'deviceProperties') this.#device = stringField((value as unknown[])?.[0], 'name');
    if (name === 'distributedInfo') this.#readDistributedInfo(value);
  }

  event(text: string, offset: number): void {
    const event = parse(text, offset) as TraceEvent;
    if (typeof event !== 'object' || event === null)
      throw new PicketError('bad_input', 'not a JSON object where an event was expected', { offset });
    if (event.ph === 'X') this.#complete(event, text, offset);
    else if (event.ph === 'B' || event.ph === 'E') this.#mark(event, text, offset);
    else if (event.ph === 'M') this.#timeline.metadata(event);
  }

  /** Whether the events themselves say which rank each is of. */
  get namesItsRanks(): boolean {
    return this.#timeline.length > 0;
  }

  /** The rows, once all events have been seen. */
  *rows(job: string, rank: number): Generator<PhaseBatch> {
    for (const pairs of this.#threads.values()) pairs.end();
    const device = this.#device ? { device: this.#device } : {};
    const local = this.#gpuIndex === undefined ? {} : { local_rank: this.#gpuIndex };
    const meta = newJobMeta(job, { ...device, groups: this.#groupRanks(), ranks: [{ rank, ...local }] });
    if (this.namesItsRanks) yield this.#timeline.rows(job);
    else if (this.#phases) yield* this.#phases.rows(meta, rank, this.#baseNs);
    else {
      const trace = {
        events: this.#gpu,
        steps: this.#steps,
        iterations: this.#iterations,
        launches: this.#launches,
        graphLaunches: this.#graphLaunches,
        launchesSeen: this.#launchesSeen,
        rank,
        baseNs: this.#baseNs,
      };
      yield* gpuStepRows(trace, meta, (count) => this.#context.dropped('outside_steps', { file: this.#path }, count));
    }
  }

  #complete(event: TraceEvent, text: string, offset: number): void {
    const role = this.#roleOf(event);
    if (role === 'launch') this.#launch(event);
    if (role === 'launch' || role === 'profiler') return;
    const start = stampOf(text, 'ts', event.ts);
    const duration = stampOf(text, 'dur', event.dur);
    if (start === undefined || duration === undefined) this.#drop('invalid_value', offset);
    else this.#timed(event, start, duration, offset);
  }

  #roleOf(event: TraceEvent): Role {
    const role = roleOf(event);
    if (role !== 'phase' && role !== 'timeline') this.#phases = undefined;
    return role;
  }

  /** An event with its time, written as one or as a begin and an end. */
  #timed(event: TraceEvent, start: bigint, duration: bigint, offset: number): void {
    const role = roleOf(event);
    const fault = timeFault(role, start, duration);
    if (fault) this.#drop(fault, offset);
    else if (role === 'gpu') this.#gpuEvent(event, start, Number(duration));
    else if (role === 'timeline') this.#timeline.add(event, start, duration);
    else if (role === 'phase') this.#phases?.add(event, start, duration);
    else if (role === 'iteration')
      this.#iterations.push({ startNs: start, work: servingWorkOf(event.name ?? '') as ServingWork });
    else if (role === 'step')
      this.#steps.push({ step: stepOfMark(event.name ?? '') as number, startNs: start, durNs: duration });
  }

  #gpuEvent({ cat = '', name = '', args = {} }: TraceEvent, startNs: bigint, durNs: number): void {
    const collective = /kernel/i.test(cat) ? collectiveOf(name, args) : undefined;
    if (collective?.group && !this.#groups.get(collective.group)) this.#groups.set(collective.group, collective.ranks);
    if (this.#gpuIndex === undefined && Number.isInteger(args.device)) this.#gpuIndex = args.device as number;
    this.#gpu.push({
      work: workOf(cat, name, collective !== undefined),
      startNs,
      durNs,
      correlation: Number(args.correlation ?? Number.NaN),
      bytes: Number.isSafeInteger(args.bytes) ? (args.bytes as number) : 0,
      collective,
    });
  }

  #launch({ name = '', ts, args }: TraceEvent): void {
    if (typeof args?.correlation === 'number') this.#launches.push(args.correlation, 1000 * Number(ts));
    if (!/launch/i.test(name)) return;
    this.#launchesSeen = true;
    if (/GraphLaunch/.test(name)) this.#graphLaunches.add(Number(args?.correlation));
  }

  #mark(event: TraceEvent, text: string, offset: number): void {
    const begins = event.ph === 'B';
    if (begins) this.#roleOf(event);
    const ts = stampOf(text, 'ts', event.ts);
    if (ts === undefined) {
      this.#drop('invalid_value', offset);
      return;
    }
    const thread = `${event.pid}/${event.tid}`;
    let pairs = this.#threads.get(thread);
    if (!pairs) this.#threads.set(thread, (pairs = this.#newPairs()));
    pairs.add({ begins, ts, name: event.name, offset, event });
  }

  #newPairs(): DurationPairs<BegunEvent> {
    return new DurationPairs(
      ({ event, ts, offset }, durNs) => this.#timed(event, ts, durNs, offset),
      ({ offset }, reason) => this.#drop(reason, offset),
    );
  }

  #readDistributedInfo(value: unknown): void {
    const { rank, pg_config } = (value ?? {}) as { rank?: unknown; pg_config?: unknown };
    if (Number.isInteger(rank) && (rank as number) >= 0) this.rank = rank as number;
    for (const group of Array.isArray(pg_config) ? pg_config : []) {
      const ranks = rankList(group?.ranks);
      if (ranks) this.#declaredGroups.set(String(group.pg_name), ranks);
    }
  }

  #groupRanks(): JobMeta['groups'] {
    const groups: JobMeta['groups'] = {};
    for (const [name, ranks = this.#declaredGroups.get(name)] of this.#groups) if (ranks) groups[name] = [...ranks];
    return groups;
  }

  #drop(reason: string, offset: number): void {
    this.#context.dropped(reason, { file: this.#path, offset });
  }
}

interface BegunEvent extends DurationMark {
  readonly event: TraceEvent;
}

/** Why times are dropped here already: events are summed into rows, which can no longer be checked. */
function timeFault(role: Role, start: bigint, duration: bigint): RowFault | undefined {
  // Drivers write 0 when they have no timing.
  if (role === 'gpu' && start === 0n) return 'start_zero';
  // Leaves room for the base to be added within 64 bits.
  if (start !== BigInt.asIntN(63, start)) return 'start_out_of_range';
  if (duration < 0n) return 'duration_negative';
  return duration > MAX_DURATION_NS ? 'duration_too_long' : undefined;
}

function parse(text: string, offset: number): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new PicketError('bad_input', `not JSON (${(cause as Error).message})`, { offset }, { cause });
  }
}

/** From the text: the parsed number has lost digits. */
function integerOf(field: string, text: string, offset: number): bigint {
  const digits = /^"?(-?\d{1,19})"?$/.exec(text)?.[1];
  if (digits === undefined) throw new PicketError('bad_input', `${text} is not an integer`, { field, offset });
  return BigInt(digits);
}

function stringField(value: unknown, name: string): string | undefined {
  const field = typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
  return typeof field === 'string' && field !== '' ? field : undefined;
}
