import { type Int64, toBigInt } from '../../protocol/int64.js';
import { KIND } from '../../protocol/vocabulary.js';
import { addChannel, addCollective, type Collectives, groupsOf, newCollectives } from './collectives.js';
import { type IdleTotals, idleInside, newIdleTotals, noteIdle } from './idle.js';
import {
  addCommBusy,
  addLaunches,
  addPort,
  addServing,
  addWhole,
  busyOf,
  launchesOf,
  newServingTotals,
  type ServingTotals,
} from './serving-totals.js';
import type { JobBatch, StepRows } from './step-rows.js';
import type { BySlot, StepView } from './step-view.js';
import { type JobTopology, slotsOfOtherClock, TRAIT } from './topology.js';

/** Where each slot's last step ended on its own clock: what gaps between steps are measured from. Plain data. */
export interface StepEnds {
  /** Times are doubles from here: exact for 104 days. */
  base: Int64;
  ends: Map<number, { step: number; end: number }>;
}

/** Decomposes a closed step into own work, gaps and collectives; `ends` moves on to this step. */
export function decompose(rows: StepRows, topology: JobTopology, ends: StepEnds, live: readonly number[]): StepView {
  const totals = newTotals(topology.ranks.length);
  const otherClock = slotsOfOtherClock(topology);
  rows.forEach((source, i, slot) => {
    if (otherClock.size > 0 && otherClock.has(slot) && isTimedByClock(source, i)) return;
    addRow(totals, source, i, slot, topology, ends.base);
  });
  if (totals.hasWhole) dropParts(totals, topology);
  for (const slot of rows.starts.keys()) closeSlot(totals, slot, rows.step, ends);
  const { work, gap, stepTime, tokens, graph, microbatches } = totals;
  const idle = idleInside(rows, totals, topology, ends.base);
  return {
    step: rows.step,
    startNs: toBigInt(ends.base) + BigInt(totals.first),
    otherClock: [...rows.starts.keys()]
      .filter((slot) => otherClock.has(slot))
      .map((slot) => topology.ranks[slot] as number),
    missing: live.filter((slot) => !rows.starts.has(slot)).map((slot) => topology.ranks[slot] as number),
    work,
    gap,
    idle,
    stepTime,
    tokens,
    graph,
    microbatches,
    launchBound: totals.launchBound,
    phaseTokens: byName(totals.phaseTokens, topology),
    serving: totals.serving.facts,
    requests: totals.serving.requests,
    launches: launchesOf(totals.serving),
    busy: busyOf(totals.serving),
    ports: [...totals.serving.ports.values()],
    phases: byName(totals.phases, topology),
    commPhases: topology.phaseNames.names.filter((_, id) => totals.commPhases[id]),
    groups: groupsOf(totals.collectives, topology),
    channels: groupsOf(totals.channels, topology),
  };
}

/** Steps and host phases are the host's time on every rank. */
const isTimedByClock = ({ batch: { columns } }: JobBatch, i: number): boolean =>
  columns.kind[i] !== KIND.host && columns.kind[i] !== KIND.step;

function byName(sums: readonly (BySlot | undefined)[], topology: JobTopology): Map<string, BySlot> {
  const named = new Map<string, BySlot>();
  sums.forEach((known, id) => {
    if (known) named.set(topology.phaseNames.names[id] as string, known);
  });
  return named;
}

interface Totals {
  work: { compute: BySlot; memory: BySlot; data: BySlot; host: BySlot };
  /** By phase id. */
  phases: (BySlot | undefined)[];
  /** By phase id: tokens, each microbatch once. */
  phaseTokens: (BySlot | undefined)[];
  /** By phase id. */
  commPhases: boolean[];
  collectives: Collectives;
  channels: Collectives;
  gap: BySlot;
  stepTime: BySlot;
  tokens: BySlot;
  graph: BySlot;
  microbatches: BySlot;
  /** Time in host phases, which explains gaps between GPU phases; and what of it lies after the first of those. */
  hostTime: BySlot;
  hostInside: BySlot;
  idle: IdleTotals;
  /** Earliest start of any row. */
  first: number;
  begin: Float64Array;
  end: Float64Array;
  serving: ServingTotals;
  hasWhole: boolean;
  launchBound: boolean;
}

const filled = (n: number, value: number): BySlot => new Float64Array(n).fill(value);

function newTotals(n: number): Totals {
  return {
    work: { compute: filled(n, Number.NaN), memory: filled(n, 0), data: filled(n, 0), host: filled(n, 0) },
    phases: [],
    phaseTokens: [],
    commPhases: [],
    collectives: newCollectives(),
    channels: newCollectives(),
    gap: filled(n, Number.NaN),
    stepTime: filled(n, Number.NaN),
    tokens: filled(n, Number.NaN),
    graph: filled(n, -1),
    microbatches: filled(n, 1),
    hostTime: filled(n, 0),
    hostInside: filled(n, 0),
    idle: newIdleTotals(n),
    first: Number.POSITIVE_INFINITY,
    begin: filled(n, Number.POSITIVE_INFINITY),
    end: filled(n, Number.NEGATIVE_INFINITY),
    serving: newServingTotals(n),
    hasWhole: false,
    launchBound: false,
  };
}

function addRow(totals: Totals, source: JobBatch, i: number, slot: number, topology: JobTopology, base: Int64): void {
  const { columns } = source.batch;
  const start = columns.start_ns.since(i, base);
  if (start < totals.first) totals.first = start;
  // How long it will take is not known yet.
  if (columns.open[i]) return;
  const phaseId = source.phaseIds[columns.phase.indices[i] as number] as number;
  const traits = topology.phaseTraits[phaseId] as number;
  const kind = columns.kind[i] as number;
  const duration = columns.dur_ns.number(i);
  const sums = (totals.phases[phaseId] ??= filled(totals.gap.length, 0));
  sums[slot] = (sums[slot] as number) + duration;
  if ((columns.graph[i] as number) >= 0) totals.graph[slot] = columns.graph[i] as number;
  // A checkpoint is part of the step's time, not of the gap after it.
  if (kind !== KIND.host || traits & TRAIT.pause) extend(totals, slot, start, start + duration);
  noteIdle(totals.idle, source, i, slot, traits, start, duration);
  if (kind === KIND.host) addHost(totals, slot, traits, duration);
  else {
    if (source.namesPorts) addPort(totals.serving, source, i, topology.hosts[slot] as string, duration);
    if (kind === KIND.step) addStep(totals, source, i, slot, phaseId);
    if (kind === KIND.compute) addCompute(totals, source, i, slot, phaseId, traits);
    else if (kind === KIND.memory) add(traits & TRAIT.data ? totals.work.data : totals.work.memory, slot, duration);
    else if (kind === KIND.comm) addComm(totals, source, i, slot, phaseId, topology);
  }
}

function extend(totals: Totals, slot: number, start: number, end: number): void {
  if (start < (totals.begin[slot] as number)) totals.begin[slot] = start;
  if (end > (totals.end[slot] as number)) totals.end[slot] = end;
}

const add = (sums: BySlot, slot: number, value: number): void => {
  const known = sums[slot] as number;
  sums[slot] = Number.isNaN(known) ? value : known + value;
};

function addHost(totals: Totals, slot: number, traits: number, duration: number): void {
  if (traits & TRAIT.pause) return;
  add(totals.hostTime, slot, duration);
  add(traits & TRAIT.data ? totals.work.data : totals.work.host, slot, duration);
}

function addComm(
  totals: Totals,
  source: JobBatch,
  i: number,
  slot: number,
  phaseId: number,
  topology: JobTopology,
): void {
  const { columns } = source.batch;
  totals.commPhases[phaseId] = true;
  addCommBusy(totals.serving, source, i, slot);
  const op = columns.op.indices[i] as number;
  const blocks = columns.op.values[op]
    ? source.blocking[op]
    : (topology.phaseTraits[phaseId] as number) & TRAIT.blocking;
  if (blocks) addCollective(totals.collectives, source, i, slot, topology);
  else if (columns.op.values[op] === 'send' || columns.op.values[op] === 'recv')
    addChannel(totals.channels, source, i, slot, topology);
}

function addCompute(totals: Totals, source: JobBatch, i: number, slot: number, phaseId: number, traits: number): void {
  const { columns } = source.batch;
  const duration = columns.dur_ns.number(i);
  // Where GPU time is known, the rest of an eager phase is the host launching too slowly.
  const busy = columns.busy_ns.number(i);
  add(totals.work.compute, slot, busy >= 0 ? Math.min(busy, duration) : duration);
  if (busy >= 0 && busy < duration) add(totals.work.host, slot, duration - busy);
  if (traits & TRAIT.whole) totals.hasWhole = true;
  const microbatch = columns.microbatch[i] as number;
  if (microbatch >= (totals.microbatches[slot] as number)) totals.microbatches[slot] = microbatch + 1;
  addLaunches(totals.serving, source, i, slot, busy);
  if ((columns.layer[i] as number) > 0) return;
  addTokens(totals, source, i, slot, phaseId);
  addServing(totals.serving, source, i, slot);
}

function addStep(totals: Totals, source: JobBatch, i: number, slot: number, phaseId: number): void {
  addTokens(totals, source, i, slot, phaseId);
  addServing(totals.serving, source, i, slot);
  addWhole(totals.serving, source, i, slot);
}

/** Tokens of the step: of serving as every row repeats them, of training summed over a phase's microbatches. */
function addTokens(totals: Totals, source: JobBatch, i: number, slot: number, phaseId: number): void {
  const { columns } = source.batch;
  const [prefill, decode] = [columns.prefill_tokens[i] as number, columns.decode_tokens[i] as number];
  let tokens = Math.max(prefill, 0) + Math.max(decode, 0);
  // A replica without requests goes along with none.
  if (prefill >= 0 || decode >= 0) totals.launchBound ||= tokens > 0 && columns.graph[i] === 0;
  else {
    const trained = columns.tokens[i] as number;
    if (trained < 0) return;
    const sums = (totals.phaseTokens[phaseId] ??= filled(totals.gap.length, 0));
    tokens = (sums[slot] as number) + trained;
    sums[slot] = tokens;
  }
  if (!(tokens <= (totals.tokens[slot] as number))) totals.tokens[slot] = tokens;
}

/** Where a whole phase was sent, its parts would count twice. */
function dropParts(totals: Totals, topology: JobTopology): void {
  const { compute } = totals.work;
  totals.phases.forEach((sums, id) => {
    if (sums && (topology.phaseTraits[id] as number) & TRAIT.part)
      for (let slot = 0; slot < sums.length; slot++) compute[slot] = (compute[slot] as number) - (sums[slot] as number);
  });
}

function closeSlot(totals: Totals, slot: number, step: number, ends: StepEnds): void {
  const begin = totals.begin[slot] as number;
  const end = totals.end[slot] as number;
  const last = ends.ends.get(slot);
  if (!(end >= begin)) return;
  if (last && last.step === step - 1 && begin >= last.end) {
    const unexplained = begin - last.end - (totals.hostTime[slot] as number);
    totals.gap[slot] = Math.max(0, unexplained);
    totals.hostInside[slot] = Math.max(0, -unexplained);
    totals.stepTime[slot] = end - last.end;
  } else totals.stepTime[slot] = end - begin + (totals.hostTime[slot] as number);
  ends.ends.set(slot, { step, end });
}
