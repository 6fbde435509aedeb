import type { StepView } from '../pipeline/step-view.js';
import type { JobTopology } from '../pipeline/topology.js';
import { type Launch, launchOf } from './shape.js';

/** What a collective's transfer time depends on. */
export interface CollectiveShape {
  readonly op: string;
  readonly ranks: number;
  /** Hosts that the ranks lie on: between hosts another network carries it. */
  readonly hosts: number;
  readonly launch: Launch;
  /** Message size of one collective. */
  readonly bytes: number;
}

/** The collectives of one communicator, operation and message size in one step. */
export interface Transfers extends CollectiveShape {
  readonly group: string;
  /** Mean over the collectives of the shortest duration any rank had, nanoseconds. */
  readonly transferNs: number;
}

/** Transfers of a step, by communicator, operation and size. */
export const transfersOf = (view: StepView, topology: JobTopology): Transfers[] =>
  view.groups.flatMap(({ name, slots, sizes }) => {
    const hosts = new Set(slots.map((slot) => topology.hosts[slot])).size;
    const launch = launchOf(view.graph[slots[0] as number] as number);
    return sizes.map(({ op, bytes, count, transfer }) => {
      return { group: name, op, ranks: slots.length, hosts, launch, bytes, transferNs: transfer / count };
    });
  });

/** Bytes a rank moves for each byte of the message: bus bandwidth is bytes x factor / transfer. Undefined: no such op. */
export function busFactor(op: string, ranks: number): number | undefined {
  if (op === 'all_reduce') return (2 * (ranks - 1)) / ranks;
  return op === 'all_gather' || op === 'reduce_scatter' || op === 'all_to_all' ? (ranks - 1) / ranks : undefined;
}
