import { LAYOUT, type NativeSegment } from '../native/ts/index.js';
import { KIND } from '../protocol/vocabulary.js';
import { newDropCounts } from './drops.js';
import { FencePairer, type PhaseObserver } from './fence-pairer.js';
import { HostRecord, type StepFacts } from './host-records.js';
import { type HostPhaseObserver, HostRing } from './host-ring.js';
import { type PhaseKey, PhaseTable } from './phase-table.js';
import { SegmentClock } from './segment-clock.js';
import type { Step } from './step.js';

const FENCES = 16_384;
const HOST_RECORDS = 1024;
const CLOCK_SAMPLES = 256;

/** What segments are drained into, one after the other: one set serves them all. */
export class DrainBuffers {
  readonly times = new BigUint64Array(FENCES);
  readonly timeWords = new Uint32Array(this.times.buffer);
  readonly ids = new Uint32Array(FENCES);
  readonly hosts = new BigUint64Array((HOST_RECORDS * LAYOUT.host.size) / 8);
  readonly hostRecord = new HostRecord(this.hosts);
  readonly clocks = new BigUint64Array((CLOCK_SAMPLES * LAYOUT.clock.size) / 8);
}

/** A phase that has begun and not ended. */
export interface OpenPhase {
  readonly key: PhaseKey;
  readonly layer: number;
  readonly step: number;
  readonly microbatch: number;
  readonly facts: StepFacts;
  /** Epoch time. */
  readonly start: number;
  /** Number of the collective; -1. */
  readonly sequence: number;
}

export interface SegmentPipelineOptions {
  /** Epoch nanoseconds that all epoch times are counted from, so that doubles hold them. */
  readonly epochBase: bigint;
  readonly layerDetail: boolean;
  /** How often the step numbers of the segment had fallen back before. */
  readonly rewinds: number;
}

export interface SegmentObservers {
  /** Times in the fence clock of the segment. */
  readonly phase: PhaseObserver;
  /** Times in the host clock of the segment. */
  readonly hostPhase: HostPhaseObserver;
}

/** One segment from its rings to steps: drain, read the host's records, align clocks, pair. No clock of its own. */
export class SegmentPipeline {
  readonly table: PhaseTable;
  readonly clock: SegmentClock;
  readonly drops = newDropCounts();
  readonly counts = { fencesRead: 0, fencesLost: 0, hostsRead: 0, hostsLost: 0 };
  readonly #segment: NativeSegment;
  readonly #hosts: HostRing;
  readonly #pairer: FencePairer;
  /** Epoch time at which records last came. */
  #activeAt = 0;

  constructor(segment: NativeSegment, options: SegmentPipelineOptions, observers: SegmentObservers) {
    const info = segment.info();
    const created = { monotonicNs: info.createdMonotonicNs, realtimeNs: info.createdRealtimeNs };
    this.#segment = segment;
    this.table = new PhaseTable((from) => segment.phases(from), options.layerDetail);
    this.clock = new SegmentClock(info.clockSource, created, options.epochBase);
    this.#hosts = new HostRing(this.table, this.clock, this.drops, observers.hostPhase);
    const takeLinked = (record: number) => this.#hosts.takeLinked(record);
    this.#pairer = new FencePairer(this.table, this.clock, this.drops, takeLinked, observers.phase, options.rewinds);
  }

  get rewinds(): number {
    return this.#pairer.steps.rewinds;
  }

  /** Time with an open phase other than a whole step, up to `now` (epoch time). */
  busy(now: number): number {
    return this.#pairer.busy((time) => Math.max(0, now - this.clock.epochOfFence(time)));
  }

  /** How far an epoch time of a record that comes now may be off. */
  get uncertainty(): number {
    return this.clock.uncertainty(this.#pairer.newest);
  }

  /**
   * Takes in at most about `maxRecords` of what waits in the rings, and says how many fences that were.
   * @param now epoch time
   */
  drain(buffers: DrainBuffers, now: number, maxRecords: number): number {
    this.clock.addSamples(buffers.clocks, this.#segment.drainClocks(buffers.clocks));
    let taken = 0;
    while (taken < maxRecords) {
      // Fences first: the host record that a LINK names was written before it, so it is there after.
      const fences = this.#segment.drainFences(buffers.times, buffers.ids);
      this.#drainHosts(buffers);
      if (fences.count === 0 && fences.lost === 0) break;
      if (fences.count > 0) this.clock.guess(buffers.times[fences.count - 1] as bigint, now);
      this.#pairer.take(buffers.timeWords, buffers.ids, fences);
      this.counts.fencesRead += fences.count;
      this.counts.fencesLost += fences.lost;
      taken += fences.count;
      this.#activeAt = now;
    }
    return taken;
  }

  /** Steps to which nothing can come any more. */
  takeClosed(): Step[] {
    return closed(this.#pairer.takeClosed());
  }

  /** The current step, where it has news and nothing has come since `quietSince` (epoch time): an engine that idles. */
  takeQuiet(quietSince: number): Step | undefined {
    const step = this.#pairer.steps.current;
    if (!step || step.open > 0 || this.#activeAt > quietSince) return undefined;
    this.#hosts.settle();
    return step.dirty || step.facts.some(({ hostDirty }) => hostDirty) ? made(step) : undefined;
  }

  /**
   * Nothing more is read: the steps that are left.
   * @param whole the writer ended in order, so that its last step is complete
   */
  finish(whole: boolean): Step[] {
    this.#hosts.finish();
    const last = this.#pairer.steps.current;
    if (last && !whole) last.flags.partial = last.dirty = true;
    return closed(this.#pairer.finish());
  }

  /** Phases that have begun before `since` (epoch time) and not ended. */
  openPhases(since: number): OpenPhase[] {
    const open: OpenPhase[] = [];
    // The border of a whole step is open also while an engine idles.
    const wholeOnly = !this.table.keys.some(({ kind }) => kind !== KIND.step && kind !== KIND.host);
    this.#pairer.forEachOpen((part, phase, fenceStart, call) => {
      const start = this.clock.epochOfFence(fenceStart);
      if (!part || start > since) return;
      const index = this.table.keyOf[phase] as number;
      const key = this.table.keys[index] as PhaseKey;
      if (key.kind === KIND.step && !wholeOnly) return;
      const { step, microbatch, facts } = part;
      const ordinal = key.op ? (part.sums.items[index]?.starts.length ?? 0) : -1;
      const sequence = call && call.sequence >= 0 ? call.sequence : ordinal;
      open.push({
        key,
        layer: this.table.layerOf[phase] as number,
        step: step.number,
        microbatch,
        facts,
        start,
        sequence,
      });
    });
    for (const { key, start: hostStart, facts } of this.#hosts.open()) {
      const start = this.clock.epochOfHost(hostStart);
      if (!facts || start > since) continue;
      open.push({ key, layer: -1, step: facts.number, microbatch: -1, facts, start, sequence: -1 });
    }
    return open;
  }

  #drainHosts({ hosts, hostRecord }: DrainBuffers): void {
    for (;;) {
      const drained = this.#segment.drainHosts(hosts);
      if (drained.count === 0 && drained.lost === 0) return;
      this.#hosts.take(hostRecord, drained);
      this.counts.hostsRead += drained.count;
      this.counts.hostsLost += drained.lost;
    }
  }
}

function closed(steps: Step[]): Step[] {
  for (const step of steps) for (const facts of step.facts) facts.closed = true;
  return steps.filter((step) => step.dirty || step.facts.some(({ hostDirty }) => hostDirty)).map(made);
}

/** The step's rows are made now. */
function made(step: Step): Step {
  step.dirty = false;
  for (const facts of step.facts) facts.hostDirty = false;
  return step;
}
