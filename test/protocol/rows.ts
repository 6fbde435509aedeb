import fc from 'fast-check';
import { newJobMeta } from '../../protocol/job-meta.js';
import { MAX_DURATION_NS, MAX_RANK, MAX_START_NS } from '../../protocol/limits.js';
import { type PhaseBatch, PhaseBatchBuilder, type PhaseRow, rowOf } from '../../protocol/phase-batch.js';

/** A batch of rows that differ from a good one in what is given. */
export function batchOf(rows: readonly Partial<PhaseRow>[], meta = newJobMeta('job')): PhaseBatch {
  const builder = new PhaseBatchBuilder(meta);
  for (const row of rows) builder.push({ rank: 0, step: 0, phase: 'forward', start_ns: 1n, dur_ns: 1n, ...row });
  return builder.take();
}

export const rowsOf = (batch: PhaseBatch) => Array.from({ length: batch.length }, (_, i) => rowOf(batch, i));

const name = fc.string({ maxLength: 12, unit: 'grapheme' });
const atLeast = (min: bigint) => fc.bigInt({ min, max: 2n ** 63n - 1n });
const int32 = fc.integer({ min: -1, max: 2 ** 31 - 1 });

/** Any row that can be true, with values up to the ends of their ranges. */
export const possibleRow: fc.Arbitrary<PhaseRow> = fc.record(
  {
    rank: fc.integer({ min: 0, max: MAX_RANK }),
    step: atLeast(0n),
    layer: int32,
    microbatch: int32,
    phase: name.filter((given) => given.trim() !== ''),
    kind: fc.integer({ min: 0, max: 4 }),
    open: fc.integer({ min: 0, max: 1 }),
    start_ns: fc.bigInt({ min: 1n, max: MAX_START_NS }),
    dur_ns: fc.bigInt({ min: 0n, max: BigInt(MAX_DURATION_NS) }),
    count: int32,
    max_ns: atLeast(-1n),
    busy_ns: atLeast(-1n),
    launches: int32,
    op: name,
    group: name,
    seq: atLeast(-1n),
    transfer_ns: atLeast(-1n),
    bytes: atLeast(-1n),
    tokens: int32,
    prefill_tokens: int32,
    decode_tokens: int32,
    context_tokens: atLeast(-1n),
    batch: int32,
    graph: int32,
    link: name,
    nic: name,
    request: name,
    flags: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
    // JSON has no negative zero.
    kv_usage: fc.float({ min: -1, max: 1, noNaN: true }).map((value) => value + 0),
    running: int32,
    waiting: int32,
    preempted: int32,
    cached_tokens: atLeast(-1n),
    recomputed_tokens: atLeast(-1n),
  },
  { noNullPrototype: true },
);
