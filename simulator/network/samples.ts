import type { SampleRow } from '../../protocol/sample.js';
import type { Cluster } from '../cluster.js';
import { type Fault, isActive } from '../faults.js';
import { COUNTERS } from '../measured-network.js';
import { Random } from '../random.js';
import { clockErrorNs } from '../rows/host-batches.js';
import type { Traffic } from './traffic.js';

export interface NetworkSamplesParts {
  readonly seed: number;
  readonly cluster: Cluster;
  readonly faults: readonly Fault[];
  readonly traffic: Traffic;
  readonly baseNs: bigint;
  readonly everyNs: number;
  /** In this step a port goes down and up again without any effect. */
  readonly blipStep: number | undefined;
}

/** What a counter of a NIC or a GPU has grown by beyond its traffic. */
interface Link {
  txPauses: number;
  rxPauses: number;
  downs: number;
  replays: number;
  isDown: boolean;
}

/**
 * What a host's agent reads beside the phases. Counters are totals since boot, so each begins at some number of its own:
 *   of a NIC   port_xmit_data (bytes), tx_pause, rx_pause (frames), link_downed; events port_down and port_up
 *   of a GPU   nvlink_tx_data (bytes), nvlink_replay_errors
 */
export class NetworkSamples {
  readonly #parts: NetworkSamplesParts;
  readonly #links: Link[];
  readonly #clocks: Map<string, number>;
  readonly #boot: Random[];
  readonly #lifetime: { bytes: number; pauses: number }[];
  readonly #blipRank: number;
  #nextNs = 0;
  #lastNs = 0;

  constructor(parts: NetworkSamplesParts) {
    const { seed, cluster } = parts;
    this.#parts = parts;
    this.#clocks = new Map(cluster.hosts.map((host) => [host, clockErrorNs(seed, host)]));
    this.#boot = Array.from({ length: cluster.size }, (_, rank) => Random.stream(seed, cluster.job, 'boot', rank));
    this.#lifetime = this.#boot.map((random) => ({
      bytes: Math.floor(1e15 * random.uniform()),
      pauses: Math.floor(COUNTERS.lifetimePauses * random.uniform()),
    }));
    this.#links = this.#boot.map((random) => ({
      ...{ txPauses: 0, rxPauses: 0, downs: random.below(3), replays: random.below(40), isDown: false },
    }));
    this.#blipRank = Random.stream(seed, cluster.job, 'blip').below(cluster.size);
  }

  /** Samples that are due after a step that ended at `nowNs`, and the events in it. */
  after(step: number, nowNs: number): SampleRow[] {
    this.#age(step, (nowNs - this.#lastNs) / 1e9);
    const events = this.#portEvents(step, this.#lastNs, nowNs);
    this.#lastNs = nowNs;
    if (nowNs < this.#nextNs) return events;
    this.#nextNs = nowNs + this.#parts.everyNs;
    return [...events, ...this.#links.flatMap((link, rank) => this.#counters(rank, link, nowNs))];
  }

  /** Lets the counters of slow links grow. */
  #age(step: number, seconds: number): void {
    for (const [rank, link] of this.#links.entries())
      if ((this.#boot[rank] as Random).uniform() < (COUNTERS.healthyReplaysPerHour * seconds) / 3600) link.replays++;
    for (const fault of this.#parts.faults) {
      if (fault.effect !== 'transfer' || !isActive(fault, step)) continue;
      const { hosts, nic, gpu } = fault.truth.subject;
      for (const [rank, link] of this.#links.entries()) {
        if (gpu !== undefined && this.#parts.cluster.gpuOf(rank) === gpu)
          link.replays += Math.round(COUNTERS.replaysPerSecond * seconds);
        else if (fault.truth.kind === 'comm_slow' && hosts?.length === 1)
          this.#pause(rank, link, hosts[0] as string, nic, seconds);
      }
    }
  }

  /** The slow side sends pause frames, its peers on the same rail get them. */
  #pause(rank: number, link: Link, host: string, nic: string | undefined, seconds: number): void {
    const { cluster } = this.#parts;
    if (nic !== undefined && cluster.nicOf(rank) !== nic) return;
    const frames = Math.round(COUNTERS.pausesPerSecond * seconds);
    if (cluster.hostOf(rank) === host) link.txPauses += frames;
    else link.rxPauses += Math.round(frames / Math.max(1, cluster.hosts.length - 1));
  }

  #portEvents(step: number, startNs: number, endNs: number): SampleRow[] {
    const { faults, blipStep } = this.#parts;
    const events: SampleRow[] = [];
    const flaps = faults.find((fault) => fault.truth.kind === 'rnic_flap');
    if (flaps) {
      const rank = [...flaps.ranks][0] as number;
      const link = this.#links[rank] as Link;
      const down = isActive(flaps, step);
      if (down !== link.isDown) events.push(this.#portEvent(rank, link, down, startNs));
    }
    if (step === blipStep) {
      const rank = this.#blipRank;
      const link = this.#links[rank] as Link;
      events.push(this.#portEvent(rank, link, true, startNs), this.#portEvent(rank, link, false, endNs));
    }
    return events;
  }

  #portEvent(rank: number, link: Link, down: boolean, atNs: number): SampleRow {
    link.isDown = down;
    if (down) link.downs++;
    return this.#sample(rank, atNs, { name: down ? 'port_down' : 'port_up', value: 1, cumulative: false }, 'nic');
  }

  #counters(rank: number, link: Link, nowNs: number): SampleRow[] {
    const { traffic, cluster } = this.#parts;
    const { bytes, pauses } = this.#lifetime[rank] as { bytes: number; pauses: number };
    const counter = (name: string, value: number, of: 'nic' | 'gpu', unit = ''): SampleRow =>
      this.#sample(rank, nowNs, { name, value: Math.round(value), cumulative: true, unit }, of);
    const nvlink = [
      counter('nvlink_tx_data', bytes + (traffic.nvlink[rank] as number), 'gpu', 'bytes'),
      counter('nvlink_replay_errors', link.replays, 'gpu'),
    ];
    if (cluster.hosts.length === 1) return nvlink;
    return [
      ...nvlink,
      counter('port_xmit_data', bytes + (traffic.nic[rank] as number), 'nic', 'bytes'),
      counter('tx_pause', pauses + link.txPauses, 'nic'),
      counter('rx_pause', pauses + link.rxPauses, 'nic'),
      counter('link_downed', link.downs, 'nic'),
    ];
  }

  #sample(
    rank: number,
    atNs: number,
    facts: Pick<SampleRow, 'name' | 'value' | 'cumulative'> & { unit?: string },
    of: 'nic' | 'gpu',
  ): SampleRow {
    const { cluster, baseNs } = this.#parts;
    const host = cluster.hostOf(rank);
    const time = Math.round(atNs) + (this.#clocks.get(host) as number);
    return {
      ...{ time_ns: baseNs + BigInt(time), job: cluster.job, host, rank: -1, link: '', unit: '', ...facts },
      ...(of === 'nic' ? { nic: cluster.nicOf(rank), gpu: '' } : { nic: '', gpu: cluster.gpuOf(rank) }),
    };
  }
}
