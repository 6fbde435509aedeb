import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { DROP_REASONS, type DropReason } from './drops.js';
import { PhaseDurations } from './phase-durations.js';
import { SAMPLE_SOURCES, type SampleSource } from './sampler/sampler.js';

/*
 * Labels hold only what is bounded: constants of the code, words of the vocabulary, local ranks of this host. Never a job,
 * a group or a name out of the data.
 */

export type CollectorMetrics = ReturnType<typeof createMetrics>;

const MAX_LOCAL_RANK = 63;

/** All metrics of a collector on a registry of their own, with those of the process. */
export function createMetrics() {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  // Gauges named as counters are: promtool objects, and the same numbers are there by type.
  for (const what of ['handles', 'requests', 'resources']) registry.removeSingleMetric(`nodejs_active_${what}_total`);
  return {
    registry,
    durations: new PhaseDurations(registry),
    ...readingMetrics(registry),
    ...sendingMetrics(registry),
  };
}

function readingMetrics(registry: Registry) {
  const read = counter(registry, 'records_total', 'Records read out of the segments.', ['ring']);
  const lost = counter(registry, 'records_lost_total', 'Records that were overwritten unread.', ['ring']);
  const dropped = counter(registry, 'phases_dropped_total', 'Phases that became no part of a row.', ['reason']);
  const segments = gauge(registry, 'segments', 'Segments of engines.', ['state']);
  const bubble = new Gauge({
    name: 'picket_bubble_ratio',
    help: 'Share of the last seconds in which no phase ran on the GPU.',
    labelNames: ['local_rank'],
    registers: [registry],
  });
  for (const ring of ['fence', 'host'] as const) {
    read.inc({ ring }, 0);
    lost.inc({ ring }, 0);
  }
  for (const reason of DROP_REASONS) dropped.inc({ reason }, 0);
  return {
    recordsRead: (ring: 'fence' | 'host', records: number): void => read.inc({ ring }, records),
    recordsLost: (ring: 'fence' | 'host', records: number): void => lost.inc({ ring }, records),
    phasesDropped: (reason: DropReason, phases: number): void => dropped.inc({ reason }, phases),
    setSegments(live: number, refused: number): void {
      segments.set({ state: 'live' }, live);
      segments.set({ state: 'refused' }, refused);
    },
    /** By local rank; undefined where an engine numbers none. Those not given are not shown any more. */
    setBubbles(ratios: Iterable<[localRank: number | undefined, ratio: number]>): void {
      bubble.reset();
      for (const [rank, ratio] of ratios)
        bubble.set({ local_rank: rank !== undefined && rank <= MAX_LOCAL_RANK ? String(rank) : 'other' }, ratio);
    },
    clockUncertainty: gauge(
      registry,
      'clock_uncertainty_seconds',
      "The largest error that a live GPU's clock may have against this host's.",
    ),
    engineOverhead: gauge(
      registry,
      'engine_overhead_predicted_ratio',
      'Share of a pass that fences cost by prediction, in the live engine where it is largest.',
    ),
    engineErrors: gauge(registry, 'engine_errors', 'Calls that failed inside the fence libraries of live engines.'),
    loopBusy: counter(registry, 'loop_busy_seconds_total', 'Time spent on records, from ring to message.'),
  };
}

function sendingMetrics(registry: Registry) {
  const lost = counter(registry, 'rows_lost_total', 'Rows that could not be sent.', ['reason']);
  for (const reason of ['too_large', 'spool_full', 'spool_failed'] as const) lost.inc({ reason }, 0);
  const failures = counter(registry, 'sample_failures_total', 'Sources of samples that failed once.', ['source']);
  for (const source of SAMPLE_SOURCES) failures.inc({ source }, 0);
  return {
    samplesSent: counter(registry, 'samples_sent_total', 'Samples of counters that the sink has.'),
    sampleFailed: (source: SampleSource): void => failures.inc({ source }),
    rowsSent: counter(registry, 'rows_sent_total', 'Rows that the sink has.'),
    messagesSent: counter(registry, 'messages_sent_total', 'Messages that the sink has.'),
    rowsLost: (reason: 'too_large' | 'spool_full' | 'spool_failed', rows: number): void => lost.inc({ reason }, rows),
    spoolBytes: gauge(registry, 'spool_bytes', 'Size of what waits on disk for the sink.'),
    sinkUp: gauge(registry, 'sink_up', 'Whether the sink took the last message.'),
  };
}

const counter = <L extends string>(registry: Registry, name: string, help: string, labelNames: L[] = []) =>
  new Counter({ name: `picket_collector_${name}`, help, labelNames, registers: [registry] });

const gauge = <L extends string>(registry: Registry, name: string, help: string, labelNames: L[] = []) =>
  new Gauge({ name: `picket_collector_${name}`, help, labelNames, registers: [registry] });
