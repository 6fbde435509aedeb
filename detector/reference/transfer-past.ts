import type { CommGroup, CommSize } from '../pipeline/collectives.js';
import { newRing, pushRing, type Ring, ringValues } from './ring.js';
import { median } from './statistics.js';

/** Transfer time of one collective by communicator, operation and message size, from steps without trouble. Plain data. */
export type TransferPast = Map<string, Ring>;

const STEPS = 32;
const KNOWN_AT = 8;

export const sizeKey = (group: CommGroup, { op, bytes }: CommSize): string => `${group.name}|${op}|${bytes}`;

/** Usual transfer of one collective, nanoseconds; NaN unknown. */
export function usualTransfer(past: TransferPast, key: string): number {
  const ring = past.get(key);
  return ring && ring.count >= KNOWN_AT ? median(ringValues(ring)) : Number.NaN;
}

export function learnTransfer(past: TransferPast, key: string, transfer: number): void {
  let ring = past.get(key);
  if (!ring) past.set(key, (ring = newRing(STEPS)));
  pushRing(ring, transfer);
}

/**
 * Bus bandwidth in bytes a second, NCCL's measure: what each link carries, so that sizes and group sizes compare.
 * Factors as in nccl-tests (PERFORMANCE.md): 2(n-1)/n for all-reduce, (n-1)/n for gather, scatter and all-to-all.
 */
export function busBandwidth(op: string, ranks: number, bytes: number, transferNs: number): number {
  const factor = ((ranks - 1) / ranks) * (op === 'all_reduce' ? 2 : 1);
  return (bytes * factor * 1e9) / transferNs;
}
