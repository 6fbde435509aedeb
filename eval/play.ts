import type { Baseline } from '../detector/baseline/baseline.js';
import { PartitionPipeline } from '../detector/pipeline/partition-pipeline.js';
import { type Incident, SEVERITIES } from '../protocol/incident.js';
import type { PhaseBatch } from '../protocol/phase-batch.js';
import { simulate, simulateStream, type Truth, truth } from '../simulator/simulate.js';
import type { CaseOptions } from './cases.js';
import { type Timeline, Timelines } from './timeline.js';

/** A scenario as played: what was wrong, what the detector said, and what happened step by step. */
export interface Played {
  readonly options: CaseOptions;
  readonly truths: readonly Truth[];
  /** As they stood when they were opened, in that order, but with the worst severity that they came to. */
  readonly incidents: readonly Incident[];
  /** By attempt of a job; empty where not asked for. */
  readonly timelines: readonly Timeline[];
  /** Of all its jobs. */
  readonly steps: number;
  /** Start of an attempt's step, epoch ns. */
  readonly startOf: (job: string, run: string, step: number) => bigint | undefined;
  /** From the begin of an attempt's step to its last row, ns. */
  readonly timeFrom: (job: string, run: string, step: number) => number;
  readonly ranksPerJob: number;
  readonly gpuHours: number;
}

/** An attempt of a job. */
interface Extent {
  first: bigint;
  last: bigint;
  ranks: number;
  /** Where steps begin. */
  readonly starts: Map<number, bigint>;
}

/** Plays one case through the detector. The same options give the same. */
export function play({ baseline: _, ...options }: CaseOptions, wantsTimelines: boolean, baseline?: Baseline): Played {
  const pipeline = new PartitionPipeline(undefined, baseline);
  const timelines = new Timelines();
  const extents = new Map<string, Extent>();
  const found = new Map<string, Incident>();
  let offset = 0n;
  const take = (incident: Incident): void => {
    if (incident.storm) return;
    const known = found.get(incident.id);
    if (!known) found.set(incident.id, incident);
    else if (rank(incident) > rank(known)) found.set(incident.id, { ...known, severity: incident.severity });
  };
  for (const message of simulateStream(options)) {
    if (message.type === 'samples') {
      pipeline.addSamples(message.samples);
      continue;
    }
    const { batch } = message;
    if (wantsTimelines) timelines.add(batch);
    extend(extents, batch);
    for (const { after } of pipeline.add(batch, { place: `message ${offset}`, offset: offset++, again: false }))
      take(after);
  }
  for (const { after } of pipeline.flush()) take(after);
  const jobs = new Set([...extents.keys()].map((key) => key.split('\0')[0]));
  return {
    options: { ...options, ...(baseline && { baseline: true }) },
    truths: truth(options),
    incidents: [...found.values()],
    timelines: timelines.all(),
    steps: options.steps * jobs.size,
    startOf: (job, run, step) => extents.get(`${job}\0${run}`)?.starts.get(step),
    timeFrom: timeFrom(extents),
    ranksPerJob: options.ranks / jobs.size,
    gpuHours: [...extents.values()].reduce(
      (sum, each) => sum + (each.ranks * Number(each.last - each.first)) / 3.6e12,
      0,
    ),
  };
}

const rank = ({ severity }: Incident): number => SEVERITIES.indexOf(severity);

/** How long the case's jobs take without the fault: all that is random is drawn alike, so that only the fault differs. */
export function timeWithoutFault({ baseline, ...options }: CaseOptions): Played['timeFrom'] {
  const extents = new Map<string, Extent>();
  for (const batch of simulate({ ...options, strength: NO_STRENGTH })) extend(extents, batch);
  return timeFrom(extents);
}

/** Changes nothing. */
export const NO_STRENGTH = 1e-9;

const timeFrom =
  (extents: ReadonlyMap<string, Extent>): Played['timeFrom'] =>
  (job, run, step) => {
    const extent = extents.get(`${job}\0${run}`);
    const start = extent?.starts.get(step);
    return extent && start !== undefined ? Number(extent.last - start) : Number.NaN;
  };

function extend(extents: Map<string, Extent>, { meta, length, columns }: PhaseBatch): void {
  const key = `${meta.job}\0${meta.run}`;
  const members = Object.values(meta.groups).flat();
  for (let i = 0; i < length; i++) {
    const start = columns.start_ns.bigint(i);
    let extent = extents.get(key);
    if (!extent)
      extents.set(key, (extent = { first: start, last: start, ranks: new Set(members).size, starts: new Map() }));
    if (start < extent.first) extent.first = start;
    if (start > extent.last) extent.last = start;
    const step = columns.step.number(i);
    const known = extent.starts.get(step);
    if (known === undefined || start < known) extent.starts.set(step, start);
  }
}
