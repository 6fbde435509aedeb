import { cleanName } from '../protocol/names.js';

/** What a trace says of a kernel that communicates. */
export interface Collective {
  /** The phase of its row: one of OPS where that is known. */
  readonly phase: string;
  /** The communicator's name; '' where the trace does not say. */
  readonly group: string;
  readonly ranks: readonly number[] | undefined;
  /** Of the larger of the two buffers; 0: not said. */
  readonly bytes: number;
}

/** NCCL's and RCCL's kernels, and the all-reduce kernels that engines bring for small messages. */
const KERNEL = /nccl|rccl|all_?reduce|cross_device_reduce/i;

const OPS_BY_WORD: readonly (readonly [RegExp, string])[] = [
  [/allreduce|crossdevicereduce/, 'all_reduce'],
  [/allgather/, 'all_gather'],
  [/reducescatter/, 'reduce_scatter'],
  [/alltoall/, 'all_to_all'],
  [/broadcast/, 'broadcast'],
  [/sendrecv/, 'send_recv'],
  [/send/, 'send'],
  [/recv/, 'recv'],
  [/reduce/, 'reduce'],
];

const BYTES_OF_TYPE: readonly (readonly [RegExp, number])[] = [
  [/float8|byte|char|bool|int8/i, 1],
  [/half|bfloat16|float16|short|int16/i, 2],
  [/double|long|float64|int64/i, 8],
  [/float|int/i, 4],
];

/** The collective that a kernel belongs to; undefined: it computes. */
export function collectiveOf(kernel: string, args: Readonly<Record<string, unknown>>): Collective | undefined {
  const name = args['Collective name'];
  if (typeof name !== 'string' && !KERNEL.test(kernel)) return undefined;
  const group = args['Process Group Name'];
  return {
    phase: opOf(typeof name === 'string' ? name : '') ?? opOf(kernel) ?? 'collective',
    group: typeof group === 'string' ? cleanName(group) : '',
    ranks: rankList(args['Process Group Ranks']),
    bytes: messageBytes(args),
  };
}

/** The operation in a name of any spelling: `_allgather_base`, `ncclDevKernel_AllReduce_Sum_bf16_RING_LL`. */
export function opOf(name: string): string | undefined {
  const letters = name.toLowerCase().replace(/[^a-z]/g, '');
  return OPS_BY_WORD.find(([word]) => word.test(letters))?.[1];
}

function messageBytes(args: Readonly<Record<string, unknown>>): number {
  const elements = Math.max(Number(args['In msg nelems'] ?? 0), Number(args['Out msg nelems'] ?? 0));
  const size = BYTES_OF_TYPE.find(([type]) => type.test(String(args.dtype ?? '')))?.[1] ?? 0;
  return Number.isSafeInteger(elements * size) ? elements * size : 0;
}

/** A list of ranks, also written as text; undefined where it is not one: PyTorch shortens long ones with an ellipsis. */
export function rankList(value: unknown): readonly number[] | undefined {
  try {
    const ranks: unknown = typeof value === 'string' ? JSON.parse(value) : value;
    return Array.isArray(ranks) && ranks.every((rank) => Number.isInteger(rank) && rank >= 0) ? ranks : undefined;
  } catch {
    return undefined;
  }
}
