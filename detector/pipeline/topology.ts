import type { JobMeta } from '../../protocol/job-meta.js';
import { BLOCKING_OPS } from '../../protocol/vocabulary.js';

/**
 * Who takes part in a job and run: every rank seen gets a slot, in order of appearance, and arrays are indexed by slot.
 * Messages come from many hosts, each knowing its own ranks; what they say is merged here. Plain data: it goes into snapshots.
 */
export interface JobTopology {
  meta: JobMeta;
  /** rank -> slot */
  slotOfRank: Map<number, number>;
  /** slot -> facts; stage is -1 where there are no pipeline stages. */
  ranks: number[];
  hosts: string[];
  stages: number[];
  /** '' unknown. */
  gpus: string[];
  /** slot -> which clock timed its GPU phases; '' unknown. */
  clocks: ('gpu' | 'host' | '')[];
  /** Names of phases and groups, so that one number means one name for the whole job. */
  phaseNames: NameTable;
  groupNames: NameTable;
  /** By phase number: TRAIT bits. */
  phaseTraits: number[];
}

export interface NameTable {
  ids: Map<string, number>;
  names: string[];
}

const newNameTable = (): NameTable => ({ ids: new Map(), names: [] });

export function internName(table: NameTable, name: string): number {
  let id = table.ids.get(name);
  if (id === undefined) {
    id = table.names.push(name) - 1;
    table.ids.set(name, id);
  }
  return id;
}

/** What the decomposition must know of a phase, looked up by number since it is asked for every row. */
export const TRAIT = {
  /** Loading data. */
  data: 1,
  /** All ranks sit through it on purpose; it is nobody's work. */
  pause: 2,
  /** Part of a larger compute phase: not counted again where that is there too. */
  part: 4,
  whole: 8,
  /** A collective that blocks, where the row does not name its op. */
  blocking: 16,
} as const;

const TRAITS: Record<string, number> = {
  dataload: TRAIT.data,
  h2d: TRAIT.data,
  checkpoint: TRAIT.pause,
  evaluation: TRAIT.pause,
  ...Object.fromEntries(
    ['layer', 'attention', 'mlp', 'moe', 'norm', 'embedding', 'sampling'].map((name) => [name, TRAIT.part]),
  ),
  ...Object.fromEntries(['forward', 'prefill', 'decode', 'mixed'].map((name) => [name, TRAIT.whole])),
  ...Object.fromEntries([...BLOCKING_OPS].map((name) => [name, TRAIT.blocking])),
};

export function internPhase(topology: JobTopology, name: string): number {
  const id = internName(topology.phaseNames, name);
  topology.phaseTraits[id] ??= TRAITS[name] ?? 0;
  return id;
}

export const newTopology = (meta: JobMeta): JobTopology => ({
  meta: { ...meta, groups: { ...meta.groups }, ranks: [] },
  slotOfRank: new Map(),
  ranks: [],
  hosts: [],
  stages: [],
  gpus: [],
  clocks: [],
  phaseNames: newNameTable(),
  groupNames: newNameTable(),
  phaseTraits: [],
});

/** Merges a message's facts; the later message wins. */
export function mergeMeta(topology: JobTopology, meta: JobMeta): void {
  for (const info of meta.ranks) {
    const slot = slotOf(topology, info.rank, info.host ?? meta.host);
    topology.hosts[slot] = info.host ?? meta.host;
    topology.stages[slot] = info.stage ?? info.pp ?? -1;
    topology.gpus[slot] = info.gpu ?? '';
    topology.clocks[slot] = info.clock ?? '';
  }
  Object.assign(topology.meta.groups, meta.groups);
}

/** Slot of a rank, a new one if it is seen for the first time. */
export function slotOf(topology: JobTopology, rank: number, host: string): number {
  let slot = topology.slotOfRank.get(rank);
  if (slot === undefined) {
    slot = topology.ranks.push(rank) - 1;
    topology.slotOfRank.set(rank, slot);
    topology.hosts[slot] = host;
    topology.stages[slot] = -1;
    topology.gpus[slot] = '';
    topology.clocks[slot] = '';
  }
  return slot;
}

/** Slots whose phases another clock timed than those of most: a host times the launch, which compares with nothing. */
export function slotsOfOtherClock({ clocks }: JobTopology): ReadonlySet<number> {
  const slotsOf = (clock: string): number[] => clocks.flatMap((known, slot) => (known === clock ? [slot] : []));
  const [gpu, host] = [slotsOf('gpu'), slotsOf('host')];
  return new Set(gpu.length === 0 || host.length === 0 ? [] : gpu.length >= host.length ? host : gpu);
}

export const inOneStage = (topology: JobTopology, slots: readonly number[]): boolean =>
  slots.every((slot) => topology.stages[slot] === topology.stages[slots[0] as number]);

/** Slots by pipeline stage, stages in order; one entry of stage -1 where there are none. */
export function slotsByStage(topology: JobTopology): Map<number, number[]> {
  const stages = new Map<number, number[]>();
  topology.stages.forEach((stage, slot) => {
    const slots = stages.get(stage);
    if (slots) slots.push(slot);
    else stages.set(stage, [slot]);
  });
  return new Map([...stages].sort(([a], [b]) => a - b));
}
