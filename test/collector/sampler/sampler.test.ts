import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { parseCollectorConfig } from '../../../collector/config.js';
import type { Message } from '../../../collector/message.js';
import { readNics } from '../../../collector/sampler/nics.js';
import { Sampler } from '../../../collector/sampler/sampler.js';
import { decodeSamples } from '../../../protocol/sample-message.js';
import { folder } from '../support.js';

/** A host of an InfiniBand NIC, a RoCE NIC, a plain Ethernet device and two that are no hardware. */
function fakeSysfs(): string {
  const sysfs = folder();
  const files: Record<string, string | number> = {
    'class/infiniband/mlx5_0/ports/1/link_layer': 'InfiniBand',
    'class/infiniband/mlx5_0/ports/1/state': '4: ACTIVE',
    'class/infiniband/mlx5_0/ports/1/rate': '400 Gb/sec (4X NDR)',
    'class/infiniband/mlx5_0/ports/1/counters/port_xmit_data': 1000,
    'class/infiniband/mlx5_0/ports/1/counters/port_rcv_data': 2000,
    'class/infiniband/mlx5_0/ports/1/counters/link_downed': 3,
    'class/infiniband/mlx5_1/ports/1/link_layer': 'Ethernet',
    'class/infiniband/mlx5_1/ports/1/state': '1: DOWN',
    'class/infiniband/mlx5_1/ports/1/counters/port_xmit_data': 50,
    'class/infiniband/mlx5_1/device/net/eth1/ifindex': 4,
    'class/net/eth1/device/vendor': '0x15b3',
    'class/net/eth1/carrier': 0,
    'class/net/eth1/carrier_down_count': 9,
    'class/net/eth1/speed': 400_000,
    'class/net/eth1/statistics/tx_bytes': 77,
    'class/net/eth0/device/vendor': '0x8086',
    'class/net/eth0/carrier': 1,
    'class/net/eth0/speed': -1,
    'class/net/eth0/statistics/tx_bytes': 11,
    'class/net/eth0/statistics/rx_bytes': 12,
    'class/net/lo/statistics/tx_bytes': 1,
    'class/net/veth7/statistics/tx_bytes': 1,
  };
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(sysfs, path)), { recursive: true });
    writeFileSync(join(sysfs, path), `${content}\n`);
  }
  return sysfs;
}

it('NICs are read out of sysfs under the names that NCCL gives them', async () => {
  const readings = await readNics(fakeSysfs());
  assert.deepEqual(
    readings.map(({ nic, name, value, unit, cumulative }) => [nic, name, value, unit, cumulative]),
    [
      ['mlx5_0', 'port_state', 1, undefined, false],
      ['mlx5_0', 'link_downed', 3, undefined, true],
      ['mlx5_0', 'speed', 400, 'Gb/s', false],
      ['mlx5_0', 'port_xmit_data', 4000, 'bytes', true],
      ['mlx5_0', 'port_rcv_data', 8000, 'bytes', true],
      ['mlx5_1', 'carrier', 0, undefined, false],
      ['mlx5_1', 'carrier_down_count', 9, undefined, true],
      ['mlx5_1', 'speed', 400_000, 'Mb/s', false],
      ['mlx5_1', 'port_xmit_data', 200, 'bytes', true],
      ['eth0', 'carrier', 1, undefined, false],
      ['eth0', 'tx_bytes', 11, 'bytes', true],
      ['eth0', 'rx_bytes', 12, 'bytes', true],
    ],
  );
  assert.deepEqual(await readNics('/nowhere'), []);
});

describe('a sampler', () => {
  const server = createServer((request, response) => {
    if (request.url === '/broken') response.writeHead(500);
    response.end('# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc 0.5\n');
  });
  let url: string;
  before(async () => {
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  after(() => server.close());

  function samplerOf(samples: object, jobs: string[]) {
    const config = parseCollectorConfig(JSON.stringify({ sink: { kind: 'files', dir: '/x' }, samples }), 'x').samples;
    const [sent, failed]: [Message[], string[]] = [[], []];
    let samplesSent = 0;
    const sampler = new Sampler({
      ...{ config, host: 'node-a', jobs: () => jobs, now: () => 1_770_000_000_000 },
      send: async (messages) => void sent.push(...messages),
      onSent: (count) => {
        samplesSent += count;
      },
      onFailed: (source, what, error) => failed.push(`${source} ${what}: ${error.message}`),
    });
    return { sampler, sent, failed, count: () => samplesSent };
  }

  it('sends each job of the host what its devices, engines and programs say', async () => {
    const sysfs = fakeSysfs();
    const ethtool = join(sysfs, 'ethtool');
    writeFileSync(
      ethtool,
      '#!/bin/sh\necho "NIC statistics:"\necho "     tx_prio3_pause: 132000000"\necho "     rx_packets: 5"\n',
    );
    chmodSync(ethtool, 0o755);
    const { sampler, sent, failed, count } = samplerOf({ sysfs, ethtool, scrape: [`${url}/metrics`] }, ['a', 'b']);
    await sampler.sample();
    assert.deepEqual(failed, []);
    assert.deepEqual(
      sent.map(({ topic, key }) => [topic, key]),
      [
        ['picket.samples.v1', 'a'],
        ['picket.samples.v1', 'b'],
      ],
    );
    const rows = decodeSamples(sent[1]?.value as Uint8Array);
    assert.equal(count(), 2 * rows.length);
    const [first, ...others] = rows;
    assert.deepEqual(first, {
      ...{ job: 'b', host: 'node-a', rank: -1, gpu: '', nic: 'mlx5_0', link: '', name: 'port_state', unit: '' },
      ...{ time_ns: 1_770_000_000_000_000_000n, value: 1, cumulative: false },
    });
    const rest = others.filter(({ name }) => /pause|vllm/.test(name)).map(({ nic, name, value }) => [nic, name, value]);
    assert.deepEqual(rest, [
      ['mlx5_1', 'tx_prio3_pause', 132_000_000],
      ['', 'vllm:kv_cache_usage_perc', 0.5],
    ]);
  });

  it('goes on without a source that fails, and tells of it', async () => {
    const { sampler, sent, failed } = samplerOf({ sysfs: fakeSysfs(), ethtool: '/none', scrape: [`${url}/broken`] }, [
      'a',
    ]);
    await sampler.sample();
    assert.equal(sent.length, 1);
    assert.equal(failed.length, 2);
    assert.match(failed.join('\n'), /ethtool eth1: .*ENOENT/);
    assert.match(failed.join('\n'), /scrape http:\S+\/broken: answered 500/);
  });

  it('reads nothing while no engine lives here', async () => {
    const { sampler, sent } = samplerOf({ sysfs: fakeSysfs() }, []);
    await sampler.sample();
    assert.deepEqual(sent, []);
  });
});

it('what is to be scraped must be addresses', () => {
  const text = 'sink: {kind: files, dir: /x}\nsamples:\n  scrape: [localhost]\n';
  assert.throws(() => parseCollectorConfig(text, 'c.yaml'), /c\.yaml:3: field "samples\.scrape/);
});
