import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { ERROR_CODES, type ErrorCode } from '../protocol/errors.js';
import { INCIDENT_KINDS, type Incident } from '../protocol/incident.js';
import { ROW_FAULTS } from '../protocol/phase-checks.js';
import type { MessageState, OutboxCounts } from './store/outbox.js';

/*
 * Labels hold only what is bounded: constants of the code, configured receivers, partitions. Never a job, rank, host or name
 * out of the data.
 */

export type DetectorMetrics = ReturnType<typeof createMetrics>;

/** All metrics of a detector on a registry of their own, with those of the process. */
export function createMetrics() {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  // Gauges named as counters are: promtool objects, and the same numbers are there by type.
  for (const what of ['handles', 'requests', 'resources']) registry.removeSingleMetric(`nodejs_active_${what}_total`);
  return { registry, ...ingestMetrics(registry), ...pipelineMetrics(registry), ...incidentMetrics(registry) };
}

function ingestMetrics(registry: Registry) {
  const lag = gauge(registry, 'bus_lag', 'Messages not yet read.', ['topic', 'partition']);
  const decodeErrors = counter(registry, 'decode_errors_total', 'Messages that could not be read.', ['reason']);
  const rowsDropped = counter(registry, 'rows_dropped_total', 'Rows not used.', ['reason']);
  const samplesDropped = counter(registry, 'samples_dropped_total', 'Samples not used.', ['reason']);
  // A counter that is not there yet has no zero to rise from, and an alert on its increase misses the first.
  for (const reason of ERROR_CODES) decodeErrors.inc({ reason }, 0);
  for (const reason of ROW_FAULTS) rowsDropped.inc({ reason }, 0);
  return {
    samples: counter(registry, 'samples_total', 'Samples of counters and events taken in.'),
    /** @param reason a constant of the code */
    samplesDropped: (reason: string, samples: number): void => samplesDropped.inc({ reason }, samples),
    messages: counter(registry, 'messages_total', 'Messages read.'),
    rows: counter(registry, 'rows_total', 'Phase rows read.'),
    decodeError: (reason: ErrorCode): void => decodeErrors.inc({ reason }),
    /** @param reason a constant of the code */
    rowsDropped: (reason: string, rows: number): void => rowsDropped.inc({ reason }, rows),
    duplicateRows: counter(registry, 'duplicate_rows_total', 'Rows replaced by a later one of their identity.'),
    lastData: gauge(registry, 'last_data_seconds', 'Unix time at which rows last arrived.'),
    offsetResets: gauge(registry, 'bus_offset_resets', 'Times the committed offset was gone from the log.'),
    rebalances: gauge(registry, 'bus_rebalances', 'Times partitions were assigned anew.'),
    /** @param lags messages by `topic/partition`; what is not in it is not assigned any more */
    setLag(lags: ReadonlyMap<string, bigint>): void {
      lag.reset();
      for (const [key, messages] of lags) {
        const slash = key.lastIndexOf('/');
        lag.set({ topic: key.slice(0, slash), partition: key.slice(slash + 1) }, Number(messages));
      }
    },
  };
}

function pipelineMetrics(registry: Registry) {
  return {
    stepsClosed: counter(registry, 'steps_closed_total', 'Steps assembled and judged.'),
    stepsPartial: counter(registry, 'steps_partial_total', 'Steps closed while rows of a rank were missing.'),
    lateRows: counter(registry, 'late_rows_total', 'Rows of steps that were closed already.'),
    /** Of one second, the part that the loop was busy is this counter's rate. */
    loopBusy: counter(registry, 'detector_loop_busy_seconds_total', 'Time spent on rows, from message to commit.'),
    commitSeconds: new Histogram({
      name: 'picket_store_commit_seconds',
      help: 'Time of one commit to the store.',
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5],
      registers: [registry],
    }),
  };
}

function incidentMetrics(registry: Registry) {
  const open = gauge(registry, 'incidents_open', 'Incidents not resolved.', ['kind']);
  const opened = counter(registry, 'incidents_opened_total', 'Incidents opened, by severity at opening.', [
    'kind',
    'severity',
  ]);
  const unrouted = counter(
    registry,
    'incidents_unrouted_total',
    'Incidents opened that no route takes: nobody is told.',
  );
  const notifications = counter(
    registry,
    'notifications_total',
    'Messages by what came of an attempt: delivered, failed (to be tried again), dead (given up) or void (nothing to tell).',
    ['receiver', 'outcome'],
  );
  const circuit = gauge(registry, 'receiver_circuit_open', 'Whether a receiver keeps failing and is asked rarely.', [
    'receiver',
  ]);
  const pending = gauge(registry, 'outbox_pending', 'Notifications waiting to be sent or sent again.');
  const held = gauge(registry, 'outbox_held', 'Changes that silences and maintenance windows hold back.');
  const dead = gauge(registry, 'outbox_dead', 'Notifications given up and kept.');
  return {
    incidentOpened: ({ kind, severity }: Incident, routed: boolean): void => {
      opened.inc({ kind, severity });
      if (!routed) unrouted.inc();
    },
    setOpenIncidents(incidents: readonly Incident[]): void {
      for (const kind of INCIDENT_KINDS) open.set({ kind }, 0);
      for (const { kind } of incidents) open.inc({ kind });
    },
    /** Shows a receiver from the start, so that an alert on it has a zero to rise from. */
    addReceiver(receiver: string): void {
      for (const outcome of ['delivered', 'failed', 'dead', 'void'] as const)
        notifications.inc({ receiver, outcome }, 0);
      circuit.set({ receiver }, 0);
    },
    notificationAttempt: (receiver: string, outcome: MessageState): void => notifications.inc({ receiver, outcome }),
    receiverCircuit: (receiver: string, open: boolean): void => circuit.set({ receiver }, open ? 1 : 0),
    silencesActive: gauge(registry, 'silences_active', 'Silences that hold now.'),
    setOutbox(counts: OutboxCounts): void {
      pending.set(counts.pending + counts.failed);
      held.set(counts.held);
      dead.set(counts.dead);
    },
  };
}

const counter = <L extends string>(registry: Registry, name: string, help: string, labelNames: L[] = []) =>
  new Counter({ name: `picket_${name}`, help, labelNames, registers: [registry] });

const gauge = <L extends string>(registry: Registry, name: string, help: string, labelNames: L[] = []) =>
  new Gauge({ name: `picket_${name}`, help, labelNames, registers: [registry] });
