/** What a phase row measures; the wire holds the number. */
export const KIND = { compute: 0, comm: 1, memory: 2, host: 3, step: 4 } as const;
export type KindName = keyof typeof KIND;
export const KIND_NAMES = Object.keys(KIND) as KindName[];

/** Bits of the `flags` column. */
export const FLAG = { partial: 1, clockUncertain: 2, rowsLostBefore: 4, truncated: 8 } as const;

/** Collective and point-to-point operations (column `op`). */
export const OPS = ['all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'broadcast', 'send', 'recv'] as const;

/** Operations in which no rank can leave before the last has come: only these split into transfer and wait. */
export const BLOCKING_OPS: ReadonlySet<string> = new Set(['all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all']);

/** Phases that have a meaning of their own; others pass through as they are. */
export const PHASES: readonly string[] = [
  'step',
  'forward',
  'backward',
  'optimizer',
  'layer',
  'attention',
  'mlp',
  'moe',
  'norm',
  'embedding',
  'sampling',
  'prefill',
  'decode',
  'mixed',
  'dataload',
  'h2d',
  'd2h',
  'host_gap',
  'checkpoint',
  'evaluation',
  ...OPS,
];

const PHASE_KINDS: Record<string, KindName> = {
  step: 'step',
  dataload: 'host',
  host_gap: 'host',
  checkpoint: 'host',
  evaluation: 'host',
  h2d: 'memory',
  d2h: 'memory',
  ...Object.fromEntries(OPS.map((op) => [op, 'comm' as const])),
};

/** Kind of a phase by its name; names outside the vocabulary are compute. */
export const kindOfPhase = (phase: string): KindName => PHASE_KINDS[phase] ?? 'compute';

/** Spellings other tools and people use, and the vocabulary's word for them. */
const PHASE_ALIASES: Record<string, string> = {
  fwd: 'forward',
  bwd: 'backward',
  opt: 'optimizer',
  allreduce: 'all_reduce',
  allgather: 'all_gather',
  reducescatter: 'reduce_scatter',
  alltoall: 'all_to_all',
  ckpt: 'checkpoint',
  eval: 'evaluation',
};

export const canonicalPhase = (name: string): string => PHASE_ALIASES[name] ?? name;
