import type { Baseline } from '../../detector/baseline/baseline.js';
import { PartitionPipeline } from '../../detector/pipeline/partition-pipeline.js';
import type { Incident } from '../../protocol/incident.js';
import { type JobMeta, newJobMeta } from '../../protocol/job-meta.js';
import { type PhaseBatch, PhaseBatchBuilder, type PhaseRow } from '../../protocol/phase-batch.js';
import type { SampleRow } from '../../protocol/sample.js';
import { canonicalPhase, KIND, kindOfPhase, OPS } from '../../protocol/vocabulary.js';

/** One phase as the tables of public reports give it: durations in ms. */
export interface Phase extends Partial<Omit<PhaseRow, 'phase' | 'dur_ns' | 'rank' | 'step'>> {
  phase: string;
  ms: number;
}

export interface TraceSpec {
  ranks: number;
  steps: number;
  /** Milliseconds from step to step. */
  period: number | ((step: number) => number);
  phases: (step: number, rank: number) => Phase[];
  meta?: Partial<JobMeta>;
  firstStep?: number;
  /** Uniform relative jitter of every duration. */
  jitter?: number;
  /** Added to a rank's clock, ns. */
  clockNs?: (step: number, rank: number) => number;
}

export const T0 = 1_770_000_000_000_000_000n;

/** Rows of a small job, one message a step: phases follow each other from the step's start on. */
export function* trace(spec: TraceSpec): Generator<PhaseBatch> {
  const random = mulberry32(1);
  const builder = new PhaseBatchBuilder(newJobMeta('case', spec.meta));
  let startNs = 0;
  const first = spec.firstStep ?? 0;
  for (let step = first; step < first + spec.steps; step++) {
    for (let rank = 0; rank < spec.ranks; rank++) {
      let at = startNs + (spec.clockNs?.(step, rank) ?? 0);
      for (const { phase: name, ms, ...facts } of spec.phases(step, rank)) {
        const phase = canonicalPhase(name);
        const dur = Math.round(ms * 1e6 * (1 + (spec.jitter ?? 0.01) * (2 * random() - 1)));
        const op = (OPS as readonly string[]).includes(phase) ? { op: phase, seq: step } : {};
        const start_ns = T0 + BigInt(Math.round(at));
        builder.push({ rank, step, phase, kind: KIND[kindOfPhase(phase)], start_ns, dur_ns: dur, ...op, ...facts });
        at += dur;
      }
    }
    startNs += 1e6 * (typeof spec.period === 'function' ? spec.period(step) : spec.period);
    yield builder.take();
  }
}

export interface Judgement {
  incidents: Incident[];
  quality: Incident[];
  pipeline: PartitionPipeline;
}

/** What the hosts' counters and events say at a time. */
export type Sample = Pick<SampleRow, 'time_ns' | 'name' | 'value'> & Partial<SampleRow>;

export const sampleAt = (seconds: number, facts: Omit<Sample, 'time_ns'>): Sample => ({
  ...facts,
  time_ns: T0 + BigInt(Math.round(seconds * 1e9)),
});

/** What the detector makes of messages, at the end of the stream; samples come when a collector would send them. */
export function judge(batches: Iterable<PhaseBatch>, samples: readonly Sample[] = [], baseline?: Baseline): Judgement {
  const pipeline = new PartitionPipeline(undefined, baseline);
  const found = new Map<string, Incident>();
  let offset = 0n;
  const waiting = samples.toSorted((a, b) => (a.time_ns < b.time_ns ? -1 : 1));
  for (const batch of batches) {
    const { start_ns, dur_ns } = batch.columns;
    const now = batch.length > 0 ? start_ns.bigint(0) + dur_ns.bigint(0) : T0;
    const due = waiting.findIndex(({ time_ns }) => time_ns > now);
    pipeline.addSamples(
      waiting.splice(0, due < 0 ? waiting.length : due).map((sample) => ({ ...NO_SOURCE, job: 'case', ...sample })),
    );
    for (const { after } of pipeline.add(batch, { place: `message ${offset}`, offset: offset++, again: false }))
      found.set(after.id, after);
  }
  for (const { after } of pipeline.flush()) found.set(after.id, after);
  for (const incident of pipeline.openIncidents()) found.set(incident.id, incident);
  const all = [...found.values()];
  return {
    incidents: all.filter(({ kind }) => kind !== 'data_quality'),
    quality: all.filter(({ kind }) => kind === 'data_quality'),
    pipeline,
  };
}

const NO_SOURCE = { host: '', rank: -1, gpu: '', nic: '', link: '', unit: '', cumulative: false };

/** Small seeded generator: tests must not depend on chance. */
export function mulberry32(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
