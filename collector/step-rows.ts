import { cleanName } from '../protocol/names.js';
import type { PhaseBatchBuilder } from '../protocol/phase-batch.js';
import { FLAG, KIND } from '../protocol/vocabulary.js';
import type { StepFacts } from './host-records.js';
import type { PhaseKey, PhaseTable } from './phase-table.js';
import type { SegmentClock } from './segment-clock.js';
import type { OpenPhase } from './segment-pipeline.js';
import type { Items, Part, Step } from './step.js';

/** A step of one rank with what its rows need. */
export interface RankStep {
  readonly rank: number;
  readonly step: Step;
  readonly table: PhaseTable;
  readonly clock: SegmentClock;
}

export interface RowOptions {
  /** Epoch nanoseconds that epoch times are counted from. */
  readonly epochBase: bigint;
  /** Rows stamped by a clock that may be further off are marked. */
  readonly clockLimitNs: number;
  readonly layerDetail: boolean;
  /** All ranks of the communicator are on this host: its collectives are summed. */
  isLocal(group: string): boolean;
  /** Transfer time of the collectives of a key that a local group summed; -1 unknown. */
  transferOf(key: PhaseKey, microbatch: number): number;
}

/**
 * Writes all rows of a step: a row a phase, summed over its layers, one a collective that other hosts share, and the
 * step itself.
 */
export function pushStepRows(builder: PhaseBatchBuilder, rankStep: RankStep, options: RowOptions): void {
  const { step, table } = rankStep;
  // An engine's own border of the step may last from step to step: it is taken only where there is nothing else.
  const spanned = step.end >= step.begin;
  for (const part of step.parts.values()) {
    const row = newRow(rankStep, part.facts, part.microbatch, options);
    for (const index of part.sums.keys()) {
      const key = table.keys[index] as PhaseKey;
      if (key.kind === KIND.step && spanned) continue;
      const items = part.sums.items[index];
      setKey(row, key);
      if (items && (key.kind !== KIND.comm || !isSummed(key, items, step, options)))
        pushItems(builder, row, items, rankStep, options);
      else pushSum(builder, row, key, index, part, rankStep, options);
    }
  }
  if (spanned) pushWhole(builder, rankStep, options);
  for (const facts of step.facts) if (facts.host.length > 0) pushHostRows(builder, rankStep, facts, options);
}

/** Collectives of a group on this host are summed with their transfer; so are others that a loss left without numbers. */
function isSummed(key: PhaseKey, items: Items, { flags }: Step, { isLocal, layerDetail }: RowOptions): boolean {
  if (key.blocking && isLocal(key.group)) return !layerDetail;
  return (flags.lost || flags.partial) && items.sequences.some((sequence) => sequence < 0);
}

function pushSum(
  builder: PhaseBatchBuilder,
  row: Row,
  key: PhaseKey,
  index: number,
  { sums, microbatch }: Part,
  { clock }: RankStep,
  options: RowOptions,
): void {
  const count = Math.round(sums.count(index));
  row.start_ns = epochNs(clock.epochOfFence(sums.start(index)), options);
  row.dur_ns = Math.round(sums.sum(index));
  row.count = count;
  row.max_ns = count > 1 ? Math.round(sums.max(index)) : -1;
  row.bytes = Math.round(sums.bytes(index));
  row.seq = count === 1 ? (sums.items[index]?.sequences[0] ?? -1) : -1;
  row.transfer_ns = key.blocking && options.isLocal(key.group) ? options.transferOf(key, microbatch) : -1;
  builder.push(row);
}

/** Phases one by one: collectives by their number, others by layer, repeats of a layer by their order. */
function pushItems(
  builder: PhaseBatchBuilder,
  row: Row,
  items: Items,
  { clock }: RankStep,
  { epochBase, layerDetail }: RowOptions,
): void {
  const comm = row.kind === KIND.comm;
  const repeats = new Map<number, number>();
  row.transfer_ns = -1;
  for (let i = 0; i < items.starts.length; i++) {
    const told = items.layers[i] as number;
    // Layers that share an id are told by the order in which they occur.
    row.layer = !layerDetail ? -1 : told >= 0 || comm || items.starts.length === 1 ? told : i;
    const repeat = repeats.get(row.layer) ?? 0;
    repeats.set(row.layer, repeat + 1);
    const sequence = items.sequences[i] as number;
    row.seq = sequence >= 0 ? sequence : comm ? i : repeat > 0 ? repeat : -1;
    row.start_ns = epochNs(clock.epochOfFence(items.starts[i] as number), { epochBase });
    const duration = items.durations[i] as number;
    const weight = layerDetail ? 1 : (items.weights[i] as number);
    row.count = Math.round(weight);
    row.dur_ns = Math.round(duration * weight);
    row.max_ns = weight > 1 ? duration : -1;
    row.bytes = Math.round(Math.max(0, items.bytes[i] as number) * weight);
    builder.push(row);
  }
  row.layer = -1;
}

/** The step from its first phase to its last. */
function pushWhole(builder: PhaseBatchBuilder, rankStep: RankStep, options: RowOptions): void {
  const { step, clock } = rankStep;
  const [first] = step.facts as [StepFacts];
  // The engine may tell of a microbatch again and again, forward and backward.
  const microbatches = [...new Map(step.facts.map((facts) => [facts.microbatch, facts])).values()];
  const one = microbatches.length === 1;
  const row = newRow(rankStep, first, one ? first.microbatch : -1, options);
  if (!one) row.tokens = sumOfTokens(microbatches);
  row.phase = 'step';
  row.kind = KIND.step;
  row.start_ns = epochNs(clock.epochOfFence(step.begin), options);
  row.dur_ns = step.end - step.begin;
  builder.push(row);
}

const sumOfTokens = (facts: readonly StepFacts[]): number =>
  facts.some(({ tokens }) => tokens < 0) ? -1 : facts.reduce((sum, { tokens }) => sum + tokens, 0);

function pushHostRows(builder: PhaseBatchBuilder, rankStep: RankStep, facts: StepFacts, options: RowOptions): void {
  const { table, clock } = rankStep;
  const row = newRow(rankStep, facts, -1, options);
  for (const { key, microbatch, start, duration, max, count, bytes } of facts.host) {
    setKey(row, table.keys[key] as PhaseKey);
    row.microbatch = microbatch >= 0 ? microbatch : facts.microbatch;
    row.start_ns = epochNs(clock.epochOfHost(start), options);
    row.dur_ns = duration;
    row.count = count;
    row.max_ns = count > 1 ? max : -1;
    row.bytes = bytes;
    builder.push(row);
  }
}

/** Writes a row of a phase that lasts. */
export function pushOpenRow(
  builder: PhaseBatchBuilder,
  rank: number,
  { key, layer, step, microbatch, facts, start, sequence }: OpenPhase,
  now: number,
  epochBase: bigint,
): void {
  const row = rowOfFacts(facts, rank, step, microbatch);
  setKey(row, key);
  row.layer = layer;
  row.open = 1;
  row.start_ns = epochNs(start, { epochBase });
  row.dur_ns = Math.round(now - start);
  row.seq = sequence;
  builder.push(row);
}

const epochNs = (time: number, { epochBase }: Pick<RowOptions, 'epochBase'>): bigint =>
  epochBase + BigInt(Math.round(time));

function setKey(row: Row, { name, kind, op, group }: PhaseKey): void {
  row.phase = name;
  row.kind = kind;
  row.op = op;
  row.group = group;
}

/** One row to be filled in and pushed again and again: a step has many, which differ in little. */
function newRow(
  { rank, step, clock }: RankStep,
  facts: StepFacts,
  microbatch: number,
  { clockLimitNs }: RowOptions,
): Row {
  const row = rowOfFacts(facts, rank, step.number, microbatch);
  if (step.flags.partial) row.flags |= FLAG.partial;
  if (step.flags.lost) row.flags |= FLAG.rowsLostBefore;
  if (clock.uncertainty(Math.max(0, step.end)) > clockLimitNs) row.flags |= FLAG.clockUncertain;
  return row;
}

type Row = ReturnType<typeof rowOfFacts>;

function rowOfFacts(facts: StepFacts, rank: number, step: number, microbatch: number) {
  // A row has room for one: with several in a step none of them owns it.
  const request = facts.requestCount === 1 ? cleanName(facts.requests[0] ?? '') : '';
  const cut = facts.requestCount === 1 && (facts.requestCut || facts.requests.length === 0);
  return {
    rank,
    step,
    layer: -1,
    microbatch,
    phase: '',
    kind: 0,
    open: 0,
    start_ns: 0n,
    dur_ns: 0,
    count: 1,
    max_ns: -1,
    op: '',
    group: '',
    seq: -1,
    transfer_ns: -1,
    bytes: 0,
    tokens: facts.tokens,
    prefill_tokens: facts.prefillTokens,
    decode_tokens: facts.decodeTokens,
    context_tokens: facts.contextTokens,
    batch: facts.batch,
    graph: facts.graph,
    kv_usage: facts.kvUsage,
    running: facts.running,
    waiting: facts.waiting,
    preempted: facts.preempted,
    cached_tokens: facts.cachedTokens,
    recomputed_tokens: facts.recomputedTokens,
    request,
    flags: cut ? FLAG.truncated : 0,
  };
}
