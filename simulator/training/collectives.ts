import { KIND } from '../../protocol/vocabulary.js';
import { transferFactor } from '../faults.js';
import { JITTER } from '../measured.js';
import { collectiveEnd } from '../propagation/collective.js';
import type { RowFacts } from '../rows/row-writer.js';
import { launched, type TrainingContext } from './context.js';

export type CollectiveOp = 'all_reduce' | 'reduce_scatter' | 'all_gather' | 'all_to_all';

export interface CollectiveFacts {
  readonly bytes: number;
  readonly microbatch?: number;
  /** Collectives summed into the row. */
  readonly count?: number;
}

/** Plays a collective of a group and adds its rows. A rank that never comes leaves it open for all that have come. */
export function collective(
  context: TrainingContext,
  op: CollectiveOp,
  group: string,
  seq: number,
  transferNs: number,
  facts: CollectiveFacts,
): void {
  const { cluster, noise, rows, free, step, traffic } = context;
  const ranks = cluster.group(group);
  for (const rank of ranks) free[rank] = launched(context, rank);
  traffic?.collective(op, ranks, facts.bytes);
  const slow = networkFactor(context, group, facts.bytes / (facts.count ?? 1));
  const end = collectiveEnd(free, ranks, transferNs * slow * noise.transfer());
  const row: RowFacts = { step, phase: op, kind: KIND.comm, op, group, seq, ...facts };
  if (end === Number.POSITIVE_INFINITY) {
    for (const rank of ranks) neverEnds(context, rank, row);
    return;
  }
  const durations = ranks.map((rank) =>
    Math.max(1, Math.round(end + noise.collectiveEndNs(rank) - (free[rank] as number))),
  );
  if (facts.count) row.transfer_ns = Math.min(...durations);
  for (const [i, rank] of ranks.entries()) {
    const start = free[rank] as number;
    const duration = durations[i] as number;
    // Lateness accrues layer by layer, so the summed ones are alike.
    if (facts.count) row.max_ns = Math.ceil(duration / facts.count);
    rows.add(rank, start, start + duration, row);
    free[rank] = start + duration;
  }
}

/** A phase that a rank has come to and that will not end; none if the rank is the one that never comes. */
export function neverEnds({ free, rows }: TrainingContext, rank: number, row: RowFacts): void {
  const start = free[rank] as number;
  if (start < Number.POSITIVE_INFINITY) rows.addEndless(rank, start, row);
  free[rank] = Number.POSITIVE_INFINITY;
}

/** How much longer a group's transfer takes than it should: faults, what its run is like, and a busy network between hosts. */
export function networkFactor(
  { faults, cluster, network, spec, step, transferPace }: TrainingContext,
  group: string,
  bytes: number,
): number {
  const factor = transferFactor(faults, group, bytes, step) * transferPace.factor(group, bytes);
  if (!spec.jitters || !cluster.spansHosts(group)) return factor;
  const slow = network.uniform() < JITTER.slowRate ? JITTER.slowFactor : 1;
  return factor * slow * Math.exp(JITTER.spread * network.normal());
}
