import type { Cluster } from '../cluster.js';

/** Bytes that each rank has sent: over NVLink within its host, over its NIC to other hosts. */
export class Traffic {
  readonly nvlink: Float64Array;
  readonly nic: Float64Array;
  readonly #host: number[];

  constructor(cluster: Cluster) {
    this.nvlink = new Float64Array(cluster.size);
    this.nic = new Float64Array(cluster.size);
    this.#host = Array.from({ length: cluster.size }, (_, rank) => cluster.hosts.indexOf(cluster.hostOf(rank)));
  }

  /**
   * A ring over `ranks` in order: each sends its share to the next, an all-reduce twice. In an all-to-all each rank sends
   * an equal part to every other one.
   */
  collective(op: string, ranks: readonly number[], bytes: number): void {
    const n = ranks.length;
    if (op === 'all_to_all') {
      for (const from of ranks) for (const to of ranks) if (to !== from) this.message(from, to, bytes / n);
      return;
    }
    const each = ((op === 'all_reduce' ? 2 : 1) * bytes * (n - 1)) / n;
    for (const [i, from] of ranks.entries()) this.message(from, ranks[(i + 1) % n] as number, each);
  }

  message(from: number, to: number, bytes: number): void {
    const sent = this.#host[from] === this.#host[to] ? this.nvlink : this.nic;
    sent[from] = (sent[from] as number) + bytes;
  }
}
