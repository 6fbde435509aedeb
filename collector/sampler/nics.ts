import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Reading } from './reading.js';

/**
 * Counters and states of the host's RDMA devices, and of the other network devices that are hardware, out of sysfs:
 *   class/infiniband/DEV/ports/N: state, rate, counters/{port_xmit_data,port_rcv_data,link_downed}
 *   class/net/DEV: carrier, carrier_down_count, speed, statistics/{tx_bytes,rx_bytes}
 * A NIC goes by the name of its RDMA device, as NCCL names it (`mlx5_0`; `mlx5_0/2` for a second port), its Ethernet
 * device adding what the RDMA port does not count. What cannot be read is left out: drivers differ in what they have.
 */
export async function readNics(sysfs: string): Promise<Reading[]> {
  const rdma = await namesIn(join(sysfs, 'class/infiniband'));
  const readings: Reading[] = [];
  const taken = new Set<string>();
  for (const device of rdma) {
    const dir = join(sysfs, 'class/infiniband', device);
    const ethernet = await namesIn(join(dir, 'device/net'));
    for (const name of ethernet) taken.add(name);
    for (const port of await namesIn(join(dir, 'ports')))
      readings.push(
        ...(await readPort(sysfs, join(dir, 'ports', port), port === '1' ? device : `${device}/${port}`, ethernet)),
      );
  }
  for (const device of await namesIn(join(sysfs, 'class/net')))
    if (!taken.has(device) && (await namesIn(join(sysfs, 'class/net', device, 'device'))).length > 0)
      readings.push(...(await readEthernet(join(sysfs, 'class/net', device), device, true)));
  return readings;
}

async function readPort(sysfs: string, dir: string, nic: string, ethernet: readonly string[]): Promise<Reading[]> {
  const [network] = ethernet;
  const overEthernet = (await textOf(join(dir, 'link_layer'))) === 'Ethernet' && network !== undefined;
  const link = overEthernet
    ? await readEthernet(join(sysfs, 'class/net', network), nic, false)
    : known([
        gauge(nic, 'port_state', stateOf(await textOf(join(dir, 'state')))),
        counter(nic, 'link_downed', await numberOf(join(dir, 'counters/link_downed'))),
        gauge(nic, 'speed', Number.parseFloat((await textOf(join(dir, 'rate'))) ?? ''), 'Gb/s'),
      ]);
  const words = async (name: string): Promise<number> => 4 * (await numberOf(join(dir, 'counters', name)));
  return [
    ...link,
    ...known([
      counter(nic, 'port_xmit_data', await words('port_xmit_data'), 'bytes'),
      counter(nic, 'port_rcv_data', await words('port_rcv_data'), 'bytes'),
    ]),
  ];
}

/** @param bytes the kernel counts what the device carries: not so where RDMA goes past it */
async function readEthernet(dir: string, nic: string, bytes: boolean): Promise<Reading[]> {
  const counted = bytes ? ['tx_bytes', 'rx_bytes'] : [];
  return known([
    gauge(nic, 'carrier', await numberOf(join(dir, 'carrier'))),
    counter(nic, 'carrier_down_count', await numberOf(join(dir, 'carrier_down_count'))),
    gauge(nic, 'speed', await numberOf(join(dir, 'speed')), 'Mb/s'),
    ...(await Promise.all(
      counted.map(async (name) => counter(nic, name, await numberOf(join(dir, 'statistics', name)), 'bytes')),
    )),
  ]);
}

/** `4: ACTIVE` is up, all other states carry nothing. */
const stateOf = (state: string | undefined): number => (state === undefined ? Number.NaN : Number(/^4\b/.test(state)));

const gauge = (nic: string, name: string, value: number, unit?: string): Reading => ({
  ...{ nic, name, value, cumulative: false },
  ...(unit !== undefined && { unit }),
});

const counter = (nic: string, name: string, value: number, unit?: string): Reading => ({
  ...gauge(nic, name, value, unit),
  cumulative: true,
});

const known = (readings: Reading[]): Reading[] => readings.filter(({ value }) => value >= 0);

const namesIn = async (dir: string): Promise<string[]> => (await readdir(dir).catch(() => [])).sort();

const textOf = async (path: string): Promise<string | undefined> =>
  (await readFile(path, 'utf8').catch(() => undefined))?.trim();

const numberOf = async (path: string): Promise<number> => Number((await textOf(path)) || Number.NaN);
