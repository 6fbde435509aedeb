import type { CommGroup, CommSize } from '../pipeline/collectives.js';
import { newRing, pushRing, type Ring, ringValues } from './ring.js';
import { median } from './statistics.js';

/**
 * Transfer time of one collective by communicator, operation and message size (CommSize.key), from steps without trouble.
 * Plain data.
 */
export type TransferPast = Map<string, Map<string, KnownTransfer>>;

export interface KnownTransfer {
  readonly op: string;
  readonly bytes: number;
  readonly ring: Ring;
  /** Median of the ring, renewed every few samples: it is asked for in every step. */
  usual: number;
  /** Its spread, as a share: a standard deviation's worth. */
  spread: number;
  renewedAt: number;
  /** The step it was last learnt from. */
  step: number;
}

/** What transfers of an earlier attempt took while nothing was wrong with them, by CommSize.key. Plain data. */
export type EarlierTransfers = ReadonlyMap<string, EarlierTransfer>;

interface EarlierTransfer {
  readonly group: string;
  /** How many shared it. */
  readonly ranks: number;
  /** Of one collective, nanoseconds, and by what share its steps vary. */
  readonly usual: number;
  readonly spread: number;
}

/** Messages from here on need bandwidth, smaller ones a quick algorithm: one-shot kernels end at about half of it. */
export const LARGE_BYTES = 1 << 20;

/** Standard deviations of what healthy runs or groups differ by: one of 300,000 of them lies further out. */
export const SURE = 4.5;

const STEPS = 32;
const KNOWN_AT = 8;
const RENEW_EVERY = 4;
/** Sizes kept of a communicator: steps that prefill have nearly one each, those of CUDA graphs some dozens in all. */
const MAX_SIZES = 256;

/** Usual transfer of one collective, nanoseconds; NaN unknown. */
export const usualTransfer = (past: TransferPast, group: CommGroup, { key }: CommSize): number =>
  past.get(group.name)?.get(key)?.usual ?? Number.NaN;

/** How much usual transfers vary, as a share of the usual one; twice as much is allowed for where it rests on few of them. */
export function usualSpread(past: TransferPast, group: CommGroup, { key }: CommSize): number {
  const known = past.get(group.name)?.get(key);
  // Student's t of as few degrees of freedom as a median deviation has (0.37 of a standard deviation's): 4.8 of 8, 2.2 of 32.
  return known ? known.spread * Math.sqrt(STEPS / Math.min(STEPS, known.ring.count)) : 0;
}

export function learnTransfer(past: TransferPast, { name }: CommGroup, size: CommSize, step: number): void {
  let sizes = past.get(name);
  if (!sizes) past.set(name, (sizes = new Map()));
  let known = sizes.get(size.key);
  if (!known) {
    if (sizes.size === MAX_SIZES) forgetOne(sizes);
    sizes.set(size.key, (known = newTransfer(size)));
  }
  known.step = step;
  pushRing(known.ring, size.transfer / size.count);
  if (known.ring.count < KNOWN_AT || known.ring.count - known.renewedAt < RENEW_EVERY) return;
  const values = ringValues(known.ring);
  known.usual = median(values);
  known.spread = 1.4826 * median(values.map((value) => Math.abs(value / known.usual - 1)));
  known.renewedAt = known.ring.count;
}

const newTransfer = ({ op, bytes }: CommSize): KnownTransfer => ({
  op,
  bytes,
  ring: newRing(STEPS),
  usual: Number.NaN,
  spread: 0,
  renewedAt: 0,
  step: 0,
});

/** The one seen longest ago, of those seen too rarely if there are any. */
function forgetOne(sizes: Map<string, KnownTransfer>): void {
  const rare = [...sizes].filter(([, { usual }]) => Number.isNaN(usual));
  const [oldest] = (rare.length > 0 ? rare : [...sizes]).reduce((a, b) => (b[1].step < a[1].step ? b : a));
  sizes.delete(oldest);
}

/**
 * Bus bandwidth in bytes a second, NCCL's measure: what each link carries, so that sizes and group sizes compare.
 * Factors as in nccl-tests (PERFORMANCE.md): 2(n-1)/n for all-reduce, (n-1)/n for gather, scatter and all-to-all, 1 for send.
 */
export function busBandwidth(op: string, ranks: number, bytes: number, transferNs: number): number {
  const factor = op === 'send' ? 1 : ((ranks - 1) / ranks) * (op === 'all_reduce' ? 2 : 1);
  return (bytes * factor * 1e9) / transferNs;
}
