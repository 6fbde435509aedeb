import type { PhaseBatch } from '../protocol/phase-batch.js';
import type { SampleRow } from '../protocol/sample.js';
import type { Cluster } from './cluster.js';
import type { Fault } from './faults.js';
import { GPUS, type GpuKind } from './measured.js';
import { NetworkSamples } from './network/samples.js';
import { Traffic } from './network/traffic.js';
import { Noise } from './noise.js';
import type { Plan } from './plan.js';
import { Random } from './random.js';
import { type LoggedRequest, readRequestLog } from './requests/log.js';
import { HostBatches } from './rows/host-batches.js';
import type { ServingSpec, TrainingSpec } from './scenario.js';
import { NOMINAL_STEP_NS } from './serving/cost.js';
import { Serving } from './serving/serving.js';
import { loadSource } from './serving/source.js';
import { durationsOf } from './training/durations.js';
import { Events } from './training/events.js';
import { Sequences } from './training/sequences.js';
import { Training } from './training/training.js';
import { TransferPace } from './transfer-pace.js';

/** What a host sends. */
export type SimulatedMessage =
  | { readonly type: 'phases'; readonly batch: PhaseBatch }
  | { readonly type: 'samples'; readonly samples: readonly SampleRow[] };

/** A job that is played. */
interface Player {
  readonly rows: HostBatches;
  readonly workload: Training | Serving;
  readonly samples: NetworkSamples | undefined;
  /** Those of the running attempt; the workload holds the same list. */
  readonly faults: Fault[];
  readonly allFaults: readonly Fault[];
}

/** Plays a plan step by step, all its jobs in turn. `samples`: counters and events too. */
export function* play(plan: Plan, samples: boolean): Generator<SimulatedMessage, void, undefined> {
  const { requestLog } = plan.options;
  const log = requestLog === undefined ? undefined : readRequestLog(requestLog);
  const players = plan.jobs.map((_, i) => playerOf(plan, i, log, samples));
  for (const { run, first, steps } of plan.attempts) {
    for (const { workload, faults, allFaults } of players) {
      if (run !== '1') workload.restart(run);
      faults.splice(0, faults.length, ...faultsOf(allFaults, run));
    }
    for (let step = first; step < first + steps; step++)
      for (const player of players) {
        player.workload.step(step);
        for (const batch of player.rows.endStep()) yield { type: 'phases', batch };
        const due = player.samples?.after(step, player.workload.nowNs) ?? [];
        if (due.length > 0) yield { type: 'samples', samples: due };
      }
  }
  for (const { rows } of players) for (const batch of rows.flush()) yield { type: 'phases', batch };
}

/** The faults of an attempt; those that do not name one are in all. */
const faultsOf = (faults: readonly Fault[], run: string): Fault[] =>
  faults.filter(({ truth }) => truth.run === undefined || truth.run === run);

function playerOf(plan: Plan, index: number, log: readonly LoggedRequest[] | undefined, wantsSamples: boolean): Player {
  const { options, scenario, startNs } = plan;
  const { cluster, faults: allFaults } = plan.jobs[index] as Plan['jobs'][number];
  const { seed, sampleSeconds = 1, steps } = options;
  const rows = new HostBatches(cluster, seed, startNs, options.stepsPerBatch);
  const traffic = wantsSamples ? new Traffic(cluster) : undefined;
  const faults = faultsOf(allFaults, '1');
  const blips = scenario.workload === 'training' && scenario.blip;
  const samples =
    traffic &&
    new NetworkSamples({
      ...{ seed, cluster, faults, traffic, baseNs: startNs, everyNs: sampleSeconds * 1e9 },
      blipStep: blips ? Math.floor(steps / 2) : undefined,
    });
  const workload =
    scenario.workload === 'serving'
      ? serving(plan, scenario, index, log, { cluster, faults, rows, traffic })
      : training(plan, scenario, { cluster, faults, rows, traffic });
  return { rows, workload, samples, faults, allFaults };
}

/** What both workloads need of a job. */
interface JobParts {
  readonly cluster: Cluster;
  readonly faults: readonly Fault[];
  readonly rows: HostBatches;
  readonly traffic: Traffic | undefined;
}

function training({ options, microbatches }: Plan, spec: TrainingSpec, parts: JobParts): Training {
  const { seed, steps, hangSeconds, stepSeconds } = options;
  const { job, size, layout } = parts.cluster;
  const gpus: GpuKind = options.gpus ?? (layout.pp > 1 ? 'steady' : 'power_limited');
  const { contents } = GPUS[gpus];
  const { lengths } = spec;
  const { faults } = parts;
  const context = {
    ...parts,
    spec,
    microbatches,
    noise: new Noise(seed, job, size, gpus),
    transferPace: new TransferPace(seed, job),
    events: new Events(seed, job, size, spec),
    sequences: new Sequences({ seed, job, replicas: layout.dp, microbatches, steps, lengths, contents, faults }),
    network: Random.stream(seed, job, 'network'),
    durations: durationsOf(layout, microbatches, stepSeconds),
    free: new Float64Array(size),
    step: 0,
    sinceStart: 0,
  };
  return new Training(context, seed, gpus, hangSeconds);
}

function serving(
  { options, jobs }: Plan,
  spec: ServingSpec,
  index: number,
  log: readonly LoggedRequest[] | undefined,
  parts: JobParts,
): Serving {
  const { seed, stepSeconds, detail, hangSeconds } = options;
  const { cluster, faults } = parts;
  const scale = stepSeconds === undefined ? 1 : (stepSeconds * 1e9) / NOMINAL_STEP_NS;
  const source = loadSource({ options, spec, cluster, faults, scale, log, engine: { first: index, of: jobs.length } });
  return new Serving({ ...parts, seed, spec, source, scale, hangSeconds, whole: detail === 'whole' });
}
