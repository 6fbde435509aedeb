import type { PhaseBatch } from '../protocol/phase-batch.js';
import { KIND, KIND_NAMES, type KindName } from '../protocol/vocabulary.js';

/** A collective's communicator in one step. */
export interface GroupTimes {
  /** Time of all its operations as each rank measured it, waits included; ns, by rank. */
  readonly durations: number[];
  /** By operation: the shortest time of any member, which has the least wait in it. */
  readonly shortest: Map<number, number>;
  bytes: number;
}

/** One step as its rows say, before anything is made of it: what the reference methods look at. Arrays are by rank. */
export interface StepTimes {
  readonly step: number;
  /** Nanoseconds since the run's first row. */
  readonly starts: number[];
  readonly ends: number[];
  readonly phases: Map<string, { kind: KindName; durations: number[] }>;
  readonly groups: Map<string, GroupTimes>;
  readonly prefillTokens: number[];
  readonly decodeTokens: number[];
}

/** All steps of one attempt of a job, in order. */
export interface Timeline {
  readonly job: string;
  readonly run: string;
  readonly baseNs: bigint;
  /** Communicators: name -> ranks. */
  readonly groups: Readonly<Record<string, readonly number[]>>;
  readonly hostOf: ReadonlyMap<number, string>;
  readonly steps: readonly StepTimes[];
}

interface Building {
  readonly job: string;
  readonly run: string;
  readonly baseNs: bigint;
  readonly groups: Record<string, readonly number[]>;
  readonly hostOf: Map<number, string>;
  readonly steps: Map<number, StepTimes>;
}

/** Collects messages into timelines, one an attempt of a job. */
export class Timelines {
  readonly #runs = new Map<string, Building>();

  add(batch: PhaseBatch): void {
    const { meta } = batch;
    if (batch.length === 0) return;
    const key = `${meta.job}\0${meta.run}`;
    let run = this.#runs.get(key);
    if (!run) {
      const baseNs = batch.columns.start_ns.bigint(0);
      run = { job: meta.job, run: meta.run, baseNs, groups: {}, hostOf: new Map(), steps: new Map() };
      this.#runs.set(key, run);
    }
    Object.assign(run.groups, meta.groups);
    for (const { rank, host = meta.host } of meta.ranks) run.hostOf.set(rank, host);
    for (let i = 0; i < batch.length; i++) addRow(run, batch, i);
  }

  all(): Timeline[] {
    return [...this.#runs.values()].map((run) => ({
      ...run,
      steps: [...run.steps.values()].sort((a, b) => a.step - b.step),
    }));
  }
}

function addRow(run: Building, batch: PhaseBatch, i: number): void {
  const { columns } = batch;
  if (columns.open[i] === 1) return;
  const kind = KIND_NAMES[columns.kind[i] as number] as KindName;
  if (columns.kind[i] === KIND.step) return;
  const rank = columns.rank[i] as number;
  const number = columns.step.number(i);
  let step = run.steps.get(number);
  if (!step) run.steps.set(number, (step = newStep(number)));
  const start = Number(columns.start_ns.bigint(i) - run.baseNs);
  const duration = columns.dur_ns.number(i);
  step.starts[rank] = Math.min(step.starts[rank] ?? Number.POSITIVE_INFINITY, start);
  step.ends[rank] = Math.max(step.ends[rank] ?? Number.NEGATIVE_INFINITY, start + duration);
  step.prefillTokens[rank] = Math.max(step.prefillTokens[rank] ?? 0, columns.prefill_tokens[i] as number);
  step.decodeTokens[rank] = Math.max(step.decodeTokens[rank] ?? 0, columns.decode_tokens[i] as number);
  const name = columns.phase.values[columns.phase.indices[i] as number] as string;
  let phase = step.phases.get(name);
  if (!phase) step.phases.set(name, (phase = { kind, durations: [] }));
  phase.durations[rank] = (phase.durations[rank] ?? 0) + duration;
  const group = columns.group.values[columns.group.indices[i] as number] ?? '';
  if (kind === 'comm' && group !== '') addOperation(step, group, rank, duration, columns, i);
}

function addOperation(
  step: StepTimes,
  name: string,
  rank: number,
  duration: number,
  columns: PhaseBatch['columns'],
  i: number,
): void {
  let group = step.groups.get(name);
  if (!group) step.groups.set(name, (group = { durations: [], shortest: new Map(), bytes: 0 }));
  const seq = columns.seq.number(i);
  group.durations[rank] = (group.durations[rank] ?? 0) + duration;
  const known = group.shortest.get(seq);
  if (known === undefined) group.bytes += columns.bytes.number(i) * (columns.count[i] as number);
  group.shortest.set(seq, Math.min(known ?? Number.POSITIVE_INFINITY, duration));
}

const newStep = (step: number): StepTimes => ({
  ...{ step, starts: [], ends: [], phases: new Map(), groups: new Map(), prefillTokens: [], decodeTokens: [] },
});

/** Time of a communicator's operations without their waits, as far as the members' times tell; ns. */
export function transferOf(group: GroupTimes): number {
  let sum = 0;
  for (const duration of group.shortest.values()) sum += duration;
  return sum;
}

/** From the step's begin to that of the next one, median over ranks, ns; the last step has none. */
export function iterationTimes({ steps }: Timeline): number[] {
  return steps.slice(1).map((next, i) => {
    const before = steps[i] as StepTimes;
    const times = next.starts.flatMap((start, rank) => {
      const from = before.starts[rank];
      return from === undefined ? [] : [(start - from) / (next.step - before.step)];
    });
    return middle(times);
  });
}

/** Time of a rank's own phases (all but communication), ns. Undefined where it sent none. */
export function ownTimes({ phases }: StepTimes): number[] {
  const sums: number[] = [];
  for (const { kind, durations } of phases.values())
    if (kind !== 'comm') for (const [rank, time] of entries(durations)) sums[rank] = (sums[rank] ?? 0) + time;
  return sums;
}

/** The values that are there. */
export const entries = (values: readonly number[]): [number, number][] =>
  [...values.entries()].filter(([, value]) => value !== undefined);

/** Median; NaN of nothing. */
export function middle(values: readonly number[]): number {
  const sorted = values.filter((value) => value !== undefined).sort((a, b) => a - b);
  if (sorted.length === 0) return Number.NaN;
  return ((sorted[(sorted.length - 1) >> 1] as number) + (sorted[sorted.length >> 1] as number)) / 2;
}
