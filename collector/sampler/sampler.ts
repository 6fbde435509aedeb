import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { MAX_MESSAGE_ROWS } from '../../protocol/limits.js';
import { cleanName } from '../../protocol/names.js';
import type { SampleRow } from '../../protocol/sample.js';
import { encodeSamples } from '../../protocol/sample-message.js';
import { TOPICS } from '../../protocol/topics.js';
import type { CollectorConfig } from '../config.js';
import type { Message } from '../message.js';
import { readPauses } from './ethtool.js';
import { readNics } from './nics.js';
import type { Reading } from './reading.js';
import { scrape } from './scrape.js';

/** Where samples come from; label of metrics. */
export const SAMPLE_SOURCES = ['sysfs', 'ethtool', 'scrape', 'send'] as const;
export type SampleSource = (typeof SAMPLE_SOURCES)[number];

export interface SamplerDeps {
  readonly config: CollectorConfig['samples'];
  readonly host: string;
  /** Jobs of the engines that live on this host: each is sent what the host's counters say. */
  readonly jobs: () => readonly string[];
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly send: (messages: readonly Message[]) => Promise<void>;
  readonly onSent: (samples: number) => void;
  readonly onFailed: (source: SampleSource, what: string, error: Error) => void;
}

const SCRAPE_TIMEOUT_MS = 2000;

/**
 * Reads the counters of NICs, GPUs and engines beside the rows, every few seconds. Nothing of it waits for an engine, and
 * what cannot be read or sent this time is counted and left out: the next reading has the counters' growth.
 */
export class Sampler {
  readonly #deps: SamplerDeps;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(deps: SamplerDeps) {
    this.#deps = deps;
  }

  start(): void {
    const again = (): void => {
      if (!this.#closed)
        this.#timer = setTimeout(() => void this.sample().finally(again), this.#deps.config.interval_seconds * 1000);
    };
    void this.sample().finally(again);
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  /** One reading of everything, sent to each job of the host; never throws. */
  async sample(): Promise<void> {
    const { jobs, send, onSent, onFailed } = this.#deps;
    const names = jobs();
    if (names.length === 0) return;
    const rows = await this.#read();
    const messages = names.flatMap((job) => messagesOf(rows, job));
    if (rows.length === 0) return;
    try {
      await send(messages);
      onSent(rows.length * names.length);
    } catch (error) {
      onFailed('send', TOPICS.samples, error as Error);
    }
  }

  async #read(): Promise<SampleRow[]> {
    const { sysfs, ethtool, scrape: urls } = this.#deps.config;
    const read = await Promise.all([
      this.#from('sysfs', sysfs, () => readNics(sysfs)),
      ...(ethtool === undefined
        ? []
        : (await ethernetOf(sysfs)).map(([device, nic]) =>
            this.#from('ethtool', device, () => readPauses(ethtool, device, nic)),
          )),
      ...urls.map((url) => this.#from('scrape', url, () => scrape(url, SCRAPE_TIMEOUT_MS))),
    ]);
    return read.flat();
  }

  /** Each source is dated by when it was read. */
  async #from(source: SampleSource, what: string, read: () => Promise<Reading[]>): Promise<SampleRow[]> {
    const { host, now, onFailed } = this.#deps;
    try {
      const readings = await read();
      const time_ns = BigInt(Math.round(now())) * 1_000_000n;
      return readings.map(({ nic = '', gpu = '', unit = '', ...facts }) => ({
        ...{ time_ns, host, rank: -1, link: '', nic: cleanName(nic), gpu: cleanName(gpu), unit, ...facts },
      }));
    } catch (error) {
      onFailed(source, what, error as Error);
      return [];
    }
  }
}

/** Ethernet devices of the host's RDMA NICs: device and the name it goes by. */
async function ethernetOf(sysfs: string): Promise<[device: string, nic: string][]> {
  const namesIn = (dir: string): Promise<string[]> => readdir(dir).catch(() => []);
  const rdma = await namesIn(join(sysfs, 'class/infiniband'));
  const pairs = rdma.map(async (nic) =>
    (await namesIn(join(sysfs, 'class/infiniband', nic, 'device/net'))).map((device): [string, string] => [
      device,
      nic,
    ]),
  );
  return (await Promise.all(pairs)).flat();
}

function messagesOf(rows: readonly SampleRow[], job: string): Message[] {
  const messages: Message[] = [];
  for (let from = 0; from < rows.length; from += MAX_MESSAGE_ROWS) {
    const own = rows.slice(from, from + MAX_MESSAGE_ROWS).map((row) => ({ ...row, job }));
    messages.push({ topic: TOPICS.samples, key: job, value: encodeSamples(own), rows: 0 });
  }
  return messages;
}
