/**
 * The columns of a phase row, once: Arrow schema, JSONL and defaults are derived from this table.
 * `int64` is exact from end to end; `name` is a dictionary of strings in which '' means none.
 */
export type ColumnType = 'int32' | 'int64' | 'uint8' | 'uint32' | 'bool' | 'float32' | 'name';

export interface ColumnSpec {
  readonly type: ColumnType;
  /** Value of a row or message that lacks it; `null`: the column is required. */
  readonly absent: number | string | null;
  /** Optional columns are left out of a message in which no row has them. */
  readonly optional?: true;
}

export const PHASE_COLUMNS = {
  rank: { type: 'int32', absent: null },
  step: { type: 'int64', absent: null },
  /** -1: all layers of the step, summed. */
  layer: { type: 'int32', absent: -1 },
  /** -1: none. */
  microbatch: { type: 'int32', absent: -1 },
  phase: { type: 'name', absent: null },
  /** See KIND. */
  kind: { type: 'uint8', absent: 0 },
  /** The phase has begun and not ended for dur_ns so far. */
  open: { type: 'bool', absent: 0 },
  /** Epoch; orders rows of one rank only. */
  start_ns: { type: 'int64', absent: null },
  dur_ns: { type: 'int64', absent: null },
  /** Phases summed into the row. */
  count: { type: 'int32', absent: 1 },
  /** The longest of them; -1: the row is one phase. */
  max_ns: { type: 'int64', absent: -1 },
  /** GPU time inside the phase. */
  busy_ns: { type: 'int64', absent: -1 },
  /** Kernels launched in it. */
  launches: { type: 'int32', absent: -1 },
  op: { type: 'name', absent: '' },
  /** Communicator. */
  group: { type: 'name', absent: '' },
  /** Number of the collective within its group. */
  seq: { type: 'int64', absent: -1 },
  /** Of summed collectives on one host: the sum of each one's minimum over its ranks. */
  transfer_ns: { type: 'int64', absent: -1 },
  bytes: { type: 'int64', absent: 0 },
  tokens: { type: 'int32', absent: -1 },
  prefill_tokens: { type: 'int32', absent: -1 },
  decode_tokens: { type: 'int32', absent: -1 },
  context_tokens: { type: 'int64', absent: -1 },
  batch: { type: 'int32', absent: -1 },
  /** CUDA graph batch size; 0 eager; -1 unknown. */
  graph: { type: 'int32', absent: -1 },
  link: { type: 'name', absent: '' },
  nic: { type: 'name', absent: '' },
  request: { type: 'name', absent: '' },
  flags: { type: 'uint32', absent: 0 },
  kv_usage: { type: 'float32', absent: -1, optional: true },
  running: { type: 'int32', absent: -1, optional: true },
  waiting: { type: 'int32', absent: -1, optional: true },
  preempted: { type: 'int32', absent: -1, optional: true },
  cached_tokens: { type: 'int64', absent: -1, optional: true },
  recomputed_tokens: { type: 'int64', absent: -1, optional: true },
} as const satisfies Record<string, ColumnSpec>;

export type ColumnName = keyof typeof PHASE_COLUMNS;
export const COLUMN_NAMES = Object.keys(PHASE_COLUMNS) as ColumnName[];
export const columnSpec = (name: ColumnName): ColumnSpec => PHASE_COLUMNS[name];
