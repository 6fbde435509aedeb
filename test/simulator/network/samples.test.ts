import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SampleRow } from '../../../protocol/sample.js';
import { Cluster } from '../../../simulator/cluster.js';
import { Traffic } from '../../../simulator/network/traffic.js';
import { type SimulateOptions, simulate, simulateSamples, simulateStream, truth } from '../../../simulator/simulate.js';
import { groupBy, rowsOf, sumOf } from '../rows.js';

const run = { ranks: 16, steps: 120, seed: 4, job: 'j', layout: { dp: 2, tp: 8 } };

/** What a counter grew by from its first to its last sample. */
function growth(samples: SampleRow[], name: string): Map<string, number> {
  const series = groupBy(
    samples.filter((sample) => sample.name === name),
    (sample) => `${sample.host} ${sample.nic || sample.gpu}`,
  );
  return new Map(
    [...series].map(([key, own]) => [String(key), (own.at(-1) as SampleRow).value - (own[0] as SampleRow).value]),
  );
}

test('bytes on the wires are those of the collectives: a ring sends 2 (n - 1) / n of an all-reduce a rank', () => {
  const cluster = new Cluster('j', { dp: 2, tp: 8, pp: 1, ep: 1 });
  const traffic = new Traffic(cluster);
  traffic.collective('all_reduce', cluster.group('tp-s0-d0'), 1000);
  traffic.collective('all_gather', cluster.group('dp-s0-t3'), 1000);
  traffic.collective('all_to_all', [0, 1, 8, 9], 1000);
  traffic.message(4, 12, 70);
  assert.deepEqual([...traffic.nvlink.slice(0, 3)], [2000, 2000, 1750]);
  assert.equal(sumOf(traffic.nvlink), 8 * 1750 + 4 * 250);
  assert.equal(sumOf(traffic.nic), 2 * 500 + 4 * 500 + 70);
});

test('counters hold what the rows say was sent', () => {
  const options = { ...run, scenario: 'comm-slow', rank: 3 };
  const samples = [...simulateSamples(options)];
  const times = [
    ...new Set(samples.filter((row) => row.nic === 'mlx5_0' && row.host === 'node-0000').map((row) => row.time_ns)),
  ];
  const rows = [...simulate(options)].flatMap(rowsOf);
  const sent = (rank: number, group: RegExp): number =>
    sumOf(rows.filter((row) => row.rank === rank && group.test(row.group)).map((row) => row.bytes));
  const first = rows.filter((row) => row.rank === 0 && row.step === 0 && row.phase === 'all_reduce');
  assert.ok(times.length > 20);
  // The first sample comes after the first step.
  const grown = growth(samples, 'port_xmit_data').get('node-0000 mlx5_0') as number;
  const last = sent(0, /^dp/) - (first.find((row) => row.group.startsWith('dp'))?.bytes as number);
  assert.ok(grown <= last && grown >= last - 3 * 2e9, `${grown} of ${last}`);
  const links = growth(samples, 'nvlink_tx_data').get('node-0000 GPU-0-0') as number;
  assert.ok(links / ((sent(0, /^tp/) * 2 * 7) / 8) > 0.95);
});

test('samples are valid, begin at some number of their own, never fall, and are the same each time', () => {
  const options = { ...run, scenario: 'nvlink-stall', sampleSeconds: 2 };
  const samples = [...simulateSamples(options)];
  for (const sample of samples)
    assert.deepEqual(SampleRow.parse({ ...sample, time_ns: String(sample.time_ns) }), sample);
  for (const own of groupBy(samples, (row) => `${row.name} ${row.host} ${row.nic} ${row.gpu}`).values())
    for (const [i, sample] of own.entries()) {
      const before = own[i - 1];
      if (!before) continue;
      assert.ok(sample.value >= before.value);
      assert.ok(sample.time_ns - before.time_ns >= 2_000_000_000n);
    }
  const pauses = samples.filter((sample) => sample.name === 'tx_pause');
  assert.ok(new Set(pauses.map((sample) => sample.value)).size > 10);
  assert.deepEqual([...simulateSamples(options)], samples);
});

test('the side that cannot keep up sends pause frames, its peers on the rail get them', () => {
  const options = { ...run, scenario: 'comm-slow', rank: 11, onset: 10 };
  const samples = [...simulateSamples(options)];
  const [sent, received] = [growth(samples, 'tx_pause'), growth(samples, 'rx_pause')];
  for (const [nic, frames] of sent) assert.equal(frames > 1e5, nic === 'node-0001 mlx5_3', `${nic} ${frames}`);
  for (const [nic, frames] of received) assert.equal(frames > 1e5, nic === 'node-0000 mlx5_3', `${nic} ${frames}`);
  for (const scenario of ['healthy', 'comm-slow-group'])
    assert.equal(sumOf(growth([...simulateSamples({ ...run, scenario })], 'tx_pause').values()), 0);
});

test('a bad link shows replays, a healthy one hardly any', () => {
  const replays = growth(
    [...simulateSamples({ ...run, scenario: 'nvlink-stall', rank: 11, onset: 10 })],
    'nvlink_replay_errors',
  );
  for (const [gpu, errors] of replays)
    assert.ok(gpu === 'node-0001 GPU-1-3' ? errors > 100 : errors < 5, `${gpu} ${errors}`);
});

const portEvents = (options: SimulateOptions): SampleRow[] =>
  [...simulateSamples(options)].filter(({ name }) => name.startsWith('port_') && name !== 'port_xmit_data');

test('a flapping port says so at each burst; a single event without effect is a single event', () => {
  const options = { ...run, steps: 300, scenario: 'rnic-flap', rank: 11, onset: 50 };
  const events = portEvents(options);
  assert.equal(truth(options)[0]?.subject.nic, 'mlx5_3');
  assert.ok(events.length >= 6);
  for (const [i, event] of events.entries()) {
    assert.deepEqual(
      [event.host, event.nic, event.name],
      ['node-0001', 'mlx5_3', i % 2 === 0 ? 'port_down' : 'port_up'],
    );
    assert.ok(i === 0 || event.time_ns > (events[i - 1] as SampleRow).time_ns);
  }
  const downs = growth([...simulateSamples(options)], 'link_downed').get('node-0001 mlx5_3') as number;
  assert.ok(Math.abs(downs - events.length / 2) <= 1);
  const blip = portEvents({ ...run, scenario: 'lookalike-port-event' });
  assert.deepEqual(
    blip.map(({ name }) => name),
    ['port_down', 'port_up'],
  );
  assert.deepEqual(portEvents({ ...run, scenario: 'healthy' }), []);
});

test('the stream holds both, the phases as without samples', () => {
  const options = { ...run, scenario: 'rnic-flap', steps: 60 };
  const stream = [...simulateStream(options)];
  const batches = stream.flatMap((message) => (message.type === 'phases' ? [message.batch] : []));
  assert.deepEqual(batches.flatMap(rowsOf), [...simulate(options)].flatMap(rowsOf));
  const samples = stream.flatMap((message) => (message.type === 'samples' ? message.samples : []));
  assert.deepEqual(samples, [...simulateSamples(options)]);
});
