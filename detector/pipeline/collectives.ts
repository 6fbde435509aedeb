import { sortedKnown } from '../reference/statistics.js';
import type { JobBatch } from './step-rows.js';
import { inOneStage, type JobTopology } from './topology.js';

/**
 * Blocking collectives of one communicator in one step. Nobody can leave before the last has come, so the minimum over
 * the ranks is the transfer and the rest is waiting for others; no clock of another host is needed (the last
 * to arrive has the shortest kernel).
 */
export interface CommGroup {
  readonly name: string;
  /** Slots that took part. */
  readonly slots: readonly number[];
  /** All of them do the same work: waits tell who is late. Across pipeline stages they do not. */
  readonly sameStage: boolean;
  /** Time in the group's collectives, in the order of `slots`, nanoseconds. */
  readonly durations: Float64Array;
  /** Sum over collectives of the shortest duration; -1 where rows are sums that cannot be split. */
  readonly transfer: number;
  readonly bytes: number;
  readonly count: number;
  /** Its ranks lie on several hosts. */
  readonly acrossHosts: boolean;
  /** The same by operation and message size; only collectives that all ranks reported. */
  readonly sizes: readonly CommSize[];
}

export interface CommSize {
  /** Communicator, operation and message size in one: by which the past of such transfers is kept. */
  readonly key: string;
  readonly op: string;
  /** Of one collective. */
  readonly bytes: number;
  count: number;
  /** Sum of the shortest durations, nanoseconds. */
  transfer: number;
}

interface Collecting {
  name: string;
  /** slot -> its place, for ranks that took part */
  members: Map<number, number>;
  /** Sum of a rank's durations, by place. */
  sums: number[];
  /** Of the last row. */
  slot: number;
  member: number;
  /** One entry a collective, and what tells them apart: seq and phase. */
  keys: number[];
  /** Where the last row's collective stands in them. */
  place: number;
  /** key -> place, once a rank's collectives do not come in the order of the first one's. */
  places: Map<number, number> | undefined;
  shortest: number[];
  reported: number[];
  /** How many collectives each row of it sums, and which of `sizes` they are of. */
  counts: number[];
  sizeOf: number[];
  sizes: CommSize[];
  summedTransfer: number;
  bytes: number;
}

export interface Collectives {
  readonly byName: Map<string, Collecting>;
  /** Of the last row, whose communicator the next one mostly has too. */
  source: JobBatch | undefined;
  index: number;
  group: Collecting | undefined;
}

export const newCollectives = (): Collectives => ({
  byName: new Map(),
  source: undefined,
  index: -1,
  group: undefined,
});

/** Takes in one row of a blocking collective. */
export function addCollective(
  all: Collectives,
  source: JobBatch,
  i: number,
  slot: number,
  topology: JobTopology,
): void {
  const { columns } = source.batch;
  const group = groupOf(all, source, columns.group.indices[i] as number, slot, topology);
  const duration = columns.dur_ns.number(i);
  const member = memberOf(group, slot);
  group.sums[member] = (group.sums[member] as number) + duration;
  if (member === 0) group.bytes += columns.bytes.number(i);
  const summed = columns.transfer_ns.number(i);
  const phaseId = source.phaseIds[columns.phase.indices[i] as number] as number;
  if (summed < 0) takeShortest(group, source, i, duration, phaseId);
  else if (member === 0) takeSum(group, source, i, summed);
}

/**
 * Takes in one row of a send or receive. The two sides of a transfer have one number in their channel; the side that came
 * last did not wait.
 */
export function addChannel(all: Collectives, source: JobBatch, i: number, slot: number, topology: JobTopology): void {
  const { columns } = source.batch;
  const index = columns.group.indices[i] as number;
  if (!columns.group.values[index] || columns.seq.number(i) < 0) return;
  const group = groupOf(all, source, index, slot, topology);
  memberOf(group, slot);
  takeShortest(group, source, i, columns.dur_ns.number(i), 0);
}

/** The communicator that a message's dictionary names so. */
function groupOf(all: Collectives, source: JobBatch, index: number, slot: number, topology: JobTopology): Collecting {
  if (all.group && all.source === source && all.index === index) return all.group;
  const named = source.batch.columns.group.values[index] as string;
  // Rows that name no communicator: the ranks of one stage are taken for it.
  const name = named || `stage ${topology.stages[slot]}`;
  let group = all.byName.get(name);
  if (!group) all.byName.set(name, (group = newCollecting(name)));
  if (named) Object.assign(all, { source, index, group });
  return group;
}

const newCollecting = (name: string): Collecting => ({
  name,
  members: new Map(),
  sums: [],
  slot: -1,
  member: -1,
  keys: [],
  place: -1,
  places: undefined,
  shortest: [],
  reported: [],
  counts: [],
  sizeOf: [],
  sizes: [],
  summedTransfer: 0,
  bytes: 0,
});

/** Rows of a rank come together, so that it is looked up once. */
function memberOf(group: Collecting, slot: number): number {
  if (group.slot === slot) return group.member;
  let member = group.members.get(slot);
  if (member === undefined) {
    member = group.sums.push(0) - 1;
    group.members.set(slot, member);
  }
  group.place = -1;
  group.slot = slot;
  group.member = member;
  return member;
}

function takeShortest(group: Collecting, source: JobBatch, i: number, duration: number, phaseId: number): void {
  const { columns } = source.batch;
  const key = columns.seq.number(i) * 4096 + phaseId;
  const place = placeOf(group, key);
  group.place = place;
  if (place === group.shortest.length) {
    group.keys.push(key);
    group.shortest.push(duration);
    group.reported.push(1);
    group.counts.push(countOf(source, i));
    group.sizeOf.push(sizeIndex(group, source, i));
  } else {
    group.reported[place] = (group.reported[place] as number) + 1;
    if (duration < (group.shortest[place] as number)) group.shortest[place] = duration;
  }
}

/** Place of a collective, the next free one if it is new. Ranks report them in one order, mostly that of their keys. */
function placeOf(group: Collecting, key: number): number {
  const { keys } = group;
  const next = group.place + 1;
  if (keys[next] === key) return next;
  if (!group.places) {
    if (next === keys.length && (next === 0 || key > (keys[next - 1] as number))) return next;
    group.places = new Map(keys.map((known, place) => [known, place]));
  }
  let place = group.places.get(key);
  if (place === undefined) group.places.set(key, (place = keys.length));
  return place;
}

export const groupsOf = (all: Collectives, topology: JobTopology): CommGroup[] =>
  [...all.byName.values()]
    .filter((group) => group.members.size > 1)
    .map((group) => {
      const slots = [...group.members.keys()];
      return {
        name: group.name,
        slots,
        sameStage: inOneStage(topology, slots),
        durations: new Float64Array(group.sums),
        transfer: transferOf(group),
        bytes: group.bytes,
        count: group.shortest.length,
        acrossHosts: slots.some((slot) => topology.hosts[slot] !== topology.hosts[slots[0] as number]),
        sizes: sizesOf(group),
      };
    });

/** A collective that a rank did not report has no known minimum, and so the sum has none. */
function transferOf(group: Collecting): number {
  if (group.reported.some((ranks) => ranks < group.members.size)) return -1;
  return group.shortest.reduce((sum, duration) => sum + duration, group.summedTransfer);
}

const countOf = ({ batch }: JobBatch, i: number): number => Math.max(1, batch.columns.count[i] as number);

/** A row that sums collectives whose transfer the collector knew: all ranks say the same, so one is asked. */
function takeSum(group: Collecting, source: JobBatch, i: number, transfer: number): void {
  const size = group.sizes[sizeIndex(group, source, i)] as CommSize;
  size.count += countOf(source, i);
  size.transfer += transfer;
  group.summedTransfer += transfer;
}

/** The row's size among those of the group; its bytes are those of all collectives that it sums. */
function sizeIndex({ name, sizes }: Collecting, source: JobBatch, i: number): number {
  const { columns } = source.batch;
  const named = columns.op.values[columns.op.indices[i] as number] || '';
  // Whichever side comes first.
  const op = named === 'recv' ? 'send' : named;
  const bytes = Math.round(columns.bytes.number(i) / countOf(source, i));
  for (let at = sizes.length - 1; at >= 0; at--) {
    const size = sizes[at] as CommSize;
    if (size.bytes === bytes && size.op === op) return at;
  }
  return sizes.push({ key: `${name}|${op}|${bytes}`, op, bytes, count: 0, transfer: 0 }) - 1;
}

function sizesOf(group: Collecting): CommSize[] {
  for (let place = 0; place < group.shortest.length; place++) {
    if ((group.reported[place] as number) < group.members.size) continue;
    const size = group.sizes[group.sizeOf[place] as number] as CommSize;
    size.count += group.counts[place] as number;
    size.transfer += group.shortest[place] as number;
  }
  return group.sizes.filter(({ count }) => count > 0);
}

/** How long the others waited for each slot of the group: the median of the others' time in it, less its own. */
export function lateness(group: CommGroup): Float64Array {
  const { durations } = group;
  const sorted = sortedKnown(durations);
  const late = new Float64Array(durations.length);
  for (let i = 0; i < durations.length; i++)
    late[i] = othersMedian(sorted, sorted.length, durations[i] as number) - (durations[i] as number);
  return late;
}

/** Upper median of a sorted list without one of its values. */
function othersMedian(sorted: Float64Array, n: number, without: number): number {
  const middle = (n - 1) >> 1;
  const value = sorted[middle] as number;
  return value >= without ? (sorted[middle + 1 < n ? middle + 1 : middle] as number) : value;
}
