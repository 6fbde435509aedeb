import type { PhaseDurations } from './phase-durations.js';
import type { PhaseKey } from './phase-table.js';
import type { Ending, OpenedSegment } from './registry.js';
import { type OpenPhase, SegmentPipeline, type SegmentPipelineOptions } from './segment-pipeline.js';
import type { Step } from './step.js';
import type { RankStep } from './step-rows.js';
import { hostLane, type TraceRing } from './trace-ring.js';

/** While a phase lasts it is sent again so often. */
const RENEW_OPEN_MS = 1000;

/** One segment being read: its pipeline, what it has told already, and where its phases are shown. */
export class SegmentReader {
  readonly opened: OpenedSegment;
  /** The engine's run id or the attempt. */
  readonly run: string;
  readonly pipeline: SegmentPipeline;
  readonly traceSource: number;
  /** Set once the writer has gone. */
  ending: Ending | undefined;
  /** Errors of its fence library were told. */
  errorTold = false;
  #counted = { fencesRead: 0, fencesLost: 0, hostsRead: 0, hostsLost: 0 };
  #busyBefore = 0;
  #openBefore = 0;
  #renewMs = 0;

  constructor(
    opened: OpenedSegment,
    run: string,
    options: SegmentPipelineOptions,
    shown: { trace: TraceRing; durations: PhaseDurations; inUse: ReadonlySet<number> },
  ) {
    this.opened = opened;
    this.run = run;
    const { trace, durations } = shown;
    const series: number[] = [];
    const observe = (key: number, lane: number, start: number, duration: number, step: number): void => {
      series[key] ??= durations.seriesOf(this.pipeline.table.keys[key] as PhaseKey);
      durations.observe(series[key] as number, duration);
      trace.add(this.traceSource, key, lane, start, duration, step);
    };
    this.pipeline = new SegmentPipeline(opened.segment, options, {
      phase: (key, lane, start, duration, step) =>
        observe(key, lane, this.pipeline.clock.epochOfFence(start), duration, step),
      hostPhase: (key, thread, start, duration) =>
        observe(key, hostLane(thread), this.pipeline.clock.epochOfHost(start), duration, -1),
    });
    const { job, rank } = opened.identity;
    const name = `${job} run ${run} rank ${rank.rank} ${opened.info.gpuName}`.trim();
    this.traceSource = trace.addSource({ name, keys: this.pipeline.table.keys }, shown.inUse);
  }

  get rank(): number {
    return this.opened.identity.rank.rank;
  }

  rankStep(step: Step): RankStep {
    return { rank: this.rank, step, table: this.pipeline.table, clock: this.pipeline.clock };
  }

  /** Phases that have lasted since before `since` (epoch time), when one is new or it is time to tell of them again. */
  duePhases(since: number, nowMs: number): OpenPhase[] {
    const open = this.pipeline.openPhases(since);
    const isNew = open.length > this.#openBefore;
    this.#openBefore = open.length;
    if (open.length === 0 || !(isNew || nowMs >= this.#renewMs)) return [];
    this.#renewMs = nowMs + RENEW_OPEN_MS;
    return open;
  }

  /** What was read and lost since the last call. */
  newCounts(): SegmentPipeline['counts'] {
    const [last, now] = [this.#counted, { ...this.pipeline.counts }];
    this.#counted = now;
    return {
      fencesRead: now.fencesRead - last.fencesRead,
      fencesLost: now.fencesLost - last.fencesLost,
      hostsRead: now.hostsRead - last.hostsRead,
      hostsLost: now.hostsLost - last.hostsLost,
    };
  }

  /** Share of the time since the last call, so many nanoseconds, in which no phase ran. */
  bubble(now: number, elapsed: number): number {
    const busy = this.pipeline.busy(now);
    const ratio = 1 - (busy - this.#busyBefore) / elapsed;
    this.#busyBefore = busy;
    return Math.min(1, Math.max(0, ratio));
  }
}
