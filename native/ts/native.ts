import type { LAYOUT } from './layout.generated.js';

// The whole native surface, in the order of ../addon/. An optional value is null and always present, never `?`: a
// misspelt property is then undefined, which no type here allows.

/** Times are in the clock named by clockSource (LAYOUT.clock.monotonic or .gpu) and become epoch times by the clock samples. */
export interface SegmentInfo {
  versionMinor: number;
  /** In the writer's PID namespace. */
  pid: number;
  pidStartTicks: bigint;
  pidNamespace: bigint;
  createdRealtimeNs: bigint;
  createdMonotonicNs: bigint;
  /** CUDA ordinal within the writer; -1 none. */
  device: number;
  clockSource: number;
  /** Empty without a GPU. */
  gpuUuid: string;
  gpuName: string;
  /** JSON object about job, run and rank as the writer gave it; may be empty. */
  attributes: string;
  fenceCapacity: number;
  hostCapacity: number;
  clockCapacity: number;
}

export interface SegmentStatus {
  writerAlive: boolean;
  /** The writer ended in order. Neither alive nor closed: it died. */
  closed: boolean;
  /** The path leads to another file or to none. */
  replaced: boolean;
  /** CLOCK_MONOTONIC. */
  heartbeatNs: bigint;
  /** Records ever claimed; with a GPU a lower bound, renewed with each clock sample. */
  fencesClaimed: number;
  hostsClaimed: number;
  /** Share of a pass that fences cost by the last choice of borders; 0: unknown. */
  overheadPredicted: number;
  /** Fence nodes in captured graphs, and records that one replay of all of them writes. */
  graphNodes: number;
  graphRecords: number;
  launches: number;
  errors: number;
  firstError: string | null;
}

export interface SegmentPhase {
  id: number;
  name: string;
  /** Numbers of protocol's KIND. */
  kind: number;
  layer: number;
  /** Occurrences that one record stands for: phases are sampled to stay within the overhead budget. */
  weight: number;
  /** Empty where not a collective. */
  op: string;
  group: string;
  /** -1: not the same for every call. */
  bytes: number;
}

/** `count` records numbered in a row from `first`; `lost` records were lost directly before them. */
export interface Drained {
  count: number;
  lost: number;
  first: number;
}

/**
 * A mapped segment. Errors carry a `code`: not_found, not_a_segment, version, damaged, in_use, system, closed,
 * not_consuming; wrong arguments are a TypeError.
 */
export interface NativeSegment {
  info(): SegmentInfo;
  status(): SegmentStatus;
  /** Phases with an id of `from` or more, by id. */
  phases(from: number): SegmentPhase[];
  /** Copies as many records as fit both arrays: time in ns and identity (low half, see LAYOUT.fence). */
  drainFences(times: BigUint64Array, ids: Uint32Array): Drained;
  /** Copies whole records of LAYOUT.host.size bytes. */
  drainHosts(records: BigUint64Array): Drained;
  /** Copies whole samples of LAYOUT.clock.size bytes and returns their number; overwritten samples are skipped. */
  drainClocks(samples: BigUint64Array): number;
  /** Makes the positions reached so far those at which the next reader of this segment starts. */
  commit(): void;
  close(): void;
}

export interface Native {
  /** The layout that the addon was compiled with. */
  layout(): typeof LAYOUT;
  Segment: new (path: string, consume: boolean) => NativeSegment;
}
