import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Incident } from '../../protocol/incident.js';
import { judge, type Sample, sampleAt, T0, type TraceSpec, trace } from '../support/trace.js';

/** Public reports whose answer lies in the counters and events of NICs, links and GPUs. */

const HOSTS = ['node-a', 'node-b'] as const;
const RANKS = 16;
const hosts = { ranks: Array.from({ length: RANKS }, (_, rank) => ({ rank, host: HOSTS[rank >> 3] as string })) };

/** Two hosts of eight GPUs: half of a step of 500 ms is an all-reduce across them, `factor` times as long. */
function job(seconds: number, factor: (atSeconds: number) => number): TraceSpec {
  const starts = [0];
  while ((starts.at(-1) as number) < seconds) {
    const at = starts.at(-1) as number;
    starts.push(at + 0.25 + 0.25 * factor(at));
  }
  const period = (step: number): number => 1000 * ((starts[step + 1] as number) - (starts[step] as number));
  const transfer = (step: number): number => 250 * factor(starts[step] as number);
  return {
    ranks: RANKS,
    steps: starts.length - 1,
    period,
    meta: hosts,
    phases: (step) => [
      { phase: 'fwd', ms: 249 },
      { phase: 'allreduce', ms: transfer(step), bytes: 3e9, group: 'dp' },
    ],
  };
}

/** A counter of a port as its agent reads it every ten seconds. */
function counter(host: string, nic: string, name: string, seconds: number, value: (at: number) => number): Sample[] {
  const reads = Array.from({ length: Math.floor(seconds / 10) + 1 }, (_, i) => 10 * i);
  return reads.map((at) => sampleAt(at, { host, nic, name, value: value(at), cumulative: true, unit: 'bytes' }));
}

const event = (at: number, name: string, host: string, nic: string): Sample =>
  sampleAt(at, { host, nic, name, value: 1 });

const facts = ({ kind, severity, subject }: Incident) => [kind, severity, subject.hosts, subject.nic];
const during = (outages: readonly (readonly [number, number])[]) => (at: number) =>
  outages.some(([down, up]) => at >= down && at < up);

describe('a port that goes down and up again and again', () => {
  const outages = [
    [10, 11.2],
    [24.5, 25.1],
    [41, 44],
    [58.3, 58.9],
  ] as const;
  const isDown = during(outages);
  const run = job(90, (at) => (isDown(at) ? 2.8 : 1));
  const events = [
    ...counter('node-b', 'nic3', 'port_xmit_data', 90, (at) => 4e15 + 6e9 * at),
    ...outages.flatMap(([down, up]) => [
      event(down, 'port_down', 'node-b', 'nic3'),
      event(up, 'port_up', 'node-b', 'nic3'),
    ]),
  ];

  it('is one flapping NIC, a warning at the second outage and critical at the third within a minute', () => {
    const { incidents } = judge(trace(run), events);
    assert.deepEqual(incidents.map(facts), [['rnic_flap', 'critical', ['node-b'], 'nic3']]);
    const said = incidents[0]?.timeline.map(({ event: what, note }) => [what, note.slice(0, 8)]);
    assert.deepEqual(said?.slice(0, 2), [
      ['opened', 'warning:'],
      ['escalated', 'critical'],
    ]);
    assert.equal(incidents[0]?.evidence.outages, 4);
  });

  it('is the same where only a counter of outages says so', () => {
    const downs = counter(
      'node-b',
      'nic3',
      'link_downed',
      90,
      (at) => 7 + outages.filter(([down]) => down <= at).length,
    );
    const { incidents } = judge(trace(run), downs);
    assert.deepEqual(incidents.map(facts), [['rnic_flap', 'critical', ['node-b'], 'nic3']]);
  });

  it('is found by the length of the steps where no collective goes across hosts', () => {
    const phases: TraceSpec['phases'] = (step, rank) => [
      { phase: 'fwd', ms: 200 },
      { phase: rank < 8 ? 'send' : 'recv', ms: periodOf(step) - 210, bytes: 1e9, group: 'pp' },
    ];
    const periodOf = run.period as (step: number) => number;
    const { incidents } = judge(trace({ ...run, phases }), events);
    assert.deepEqual(incidents.map(facts), [['rnic_flap', 'critical', ['node-b'], 'nic3']]);
  });

  it('is nothing where no step is slower for it', () => {
    const { incidents } = judge(trace(job(90, () => 1)), events);
    assert.deepEqual(incidents, []);
  });

  it('is nothing where the port went down before the job began: counters are totals since boot', () => {
    const downs = counter('node-b', 'nic3', 'link_downed', 90, () => 40);
    const { incidents } = judge(trace(job(90, () => 1)), downs);
    assert.deepEqual(incidents, []);
  });
});

it('a port that is up again and carries nothing is still a flapping NIC, and says so', () => {
  const [down, up, seconds] = [60, 75, 600];
  const run = job(seconds, (at) => (at >= down ? 2 : 1));
  const bytes = (nic: string, each: (at: number) => number): Sample[] =>
    counter('node-b', nic, 'port_xmit_data', seconds, (at) => 5e15 + each(at));
  const samples = [
    ...bytes('nic0', (at) => 24e9 * Math.min(at, down)),
    ...bytes('nic1', (at) => 24e9 * at),
    event(down, 'port_down', 'node-b', 'nic0'),
    event(up, 'port_up', 'node-b', 'nic0'),
  ];
  const { incidents } = judge(trace(run), samples);
  assert.deepEqual(incidents.map(facts), [['rnic_flap', 'critical', ['node-b'], 'nic0']]);
  assert.equal(incidents[0]?.status, 'open');
  assert.equal(incidents[0]?.evidence.port, 'up, unused');
});

describe('pause frames', () => {
  // 400 Gb/s of line rate; 308 Gb/s come in while transfers last, which is six tenths of a step.
  const [LINE, SECONDS, BUSY] = [400e9 / 8, 120, 0.6];
  const run: TraceSpec = {
    ranks: RANKS,
    steps: 2 * SECONDS,
    period: 500,
    meta: hosts,
    phases: () => [
      { phase: 'fwd', ms: 500 * (1 - BUSY) },
      { phase: 'allreduce', ms: 500 * BUSY, bytes: 3e9, group: 'dp' },
    ],
  };
  const port = (host: string, pause: string, pauses: (at: number) => number): Sample[] => [
    sampleAt(0, { host, nic: 'nic1', name: 'speed', value: LINE, unit: 'bytes/s' }),
    ...counter(host, 'nic1', 'rx_bytes', SECONDS, (at) => 3e15 + BUSY * (308e9 / 8) * at),
    ...counter(host, 'nic1', pause, SECONDS, (at) => 132e6 + pauses(at)),
  ];

  it('make communication slow through the side that sends them, though nothing is dropped', () => {
    const samples = [...port('node-b', 'tx_pause', (at) => 2e5 * at), ...port('node-a', 'rx_pause', (at) => 2e5 * at)];
    const { incidents } = judge(trace(run), samples);
    assert.deepEqual(incidents.map(facts), [['comm_slow', 'warning', ['node-b'], 'nic1']]);
    const share = Number(incidents[0]?.evidence.lost_share_of_transfers);
    assert.ok(share > 0.2 && share < 0.26, `${share} where 92 of 400 Gb/s are missing`);
  });

  it('since boot are nothing, nor are a few', () => {
    assert.deepEqual(
      judge(
        trace(run),
        port('node-b', 'tx_pause', () => 0),
      ).incidents,
      [],
    );
    assert.deepEqual(
      judge(
        trace(run),
        port('node-b', 'tx_pause', (at) => 20 * at),
      ).incidents,
      [],
    );
  });

  it('name whose slow transfers they are, where durations alone tell the communicator', () => {
    const samples = counter('node-b', 'nic1', 'tx_pause', 60, (at) => 2e5 * Math.max(0, at - 20));
    const { incidents } = judge(trace(job(60, (at) => (at < 20 ? 1 : 1.6))), samples);
    assert.deepEqual(incidents.map(facts), [['comm_slow', 'critical', ['node-b'], 'nic1']]);
    assert.equal(incidents[0]?.subject.group, 'dp');
  });
});

it('bandwidth that falls again and again while no port goes down is slow communication, not a flapping NIC', () => {
  const isSlow = during([
    [20, 23],
    [40, 43],
    [60, 63],
    [80, 83],
  ]);
  const run = job(100, (at) => (isSlow(at) ? 6 : 1));
  const samples = HOSTS.flatMap((host) => counter(host, 'nic0', 'link_downed', 100, () => 3));
  assert.deepEqual(judge(trace(run)).incidents.map(facts), [['rnic_flap', 'warning', [...HOSTS], null]]);
  const [incident, ...others] = judge(trace(run), samples).incidents;
  assert.deepEqual([incident?.kind, incident?.runner_up?.kind, others.length], ['comm_slow', 'rnic_flap', 0]);
});

describe('eight NICs of which four carry next to nothing', () => {
  const run = (bytes: (nic: number) => number): TraceSpec => ({
    ranks: 1,
    steps: 300,
    period: 1000,
    meta: { host: 'node-a', ranks: [{ rank: 0 }] },
    phases: (step) =>
      Array.from({ length: 8 }, (_, nic) => ({
        ...{
          start_ns: T0 + 1_000_000_000n * BigInt(step),
          phase: 'kv_xfer',
          ms: bytes(nic) > 1e6 ? 900 : 1,
          kind: 1,
          bytes: bytes(nic),
          nic: `nic${nic}`,
          seq: nic,
        },
      })),
  });

  it('are spread unevenly; none of them flaps', () => {
    const { incidents } = judge(trace(run((nic) => (nic < 4 ? 2.1e9 : 1e4))));
    assert.deepEqual(
      incidents.map(({ kind, subject }) => [kind, subject.hosts, subject.nic]),
      [['sched_imbalance', ['node-a'], 'nic4,nic5,nic6,nic7']],
    );
  });

  it('are nothing where all carry about as much', () => {
    assert.deepEqual(judge(trace(run((nic) => 2e9 + 1e8 * nic))).incidents, []);
  });
});

describe('counters of GPUs', () => {
  const gpus = Array.from({ length: 8 }, (_, rank) => ({ rank, host: 'node-a', gpu: `GPU-${rank}` }));
  const gauge = (gpu: number, name: string, value: number): Sample =>
    sampleAt(20, { host: 'node-a', gpu: `GPU-${gpu}`, name, value });
  const replays = (gpu: number, value: (at: number) => number): Sample[] =>
    [0, 10, 20, 30, 40, 50].map((at) =>
      sampleAt(at, {
        ...{ host: 'node-a', gpu: `GPU-${gpu}`, cumulative: true },
        name: 'nvlink_replay_errors',
        value: value(at),
      }),
    );

  it('name the GPU whose NVLink has errors', () => {
    const phases: TraceSpec['phases'] = (step) => [
      { phase: 'fwd', ms: 400 },
      { phase: 'allreduce', ms: step < 40 ? 90 : 190, bytes: 1 << 28, group: 'tp' },
    ];
    const run = {
      ranks: 8,
      steps: 100,
      period: (step: number) => (step < 40 ? 500 : 600),
      phases,
      meta: { ranks: gpus },
    };
    const samples = [
      ...replays(5, (at) => 900 + 40 * Math.max(0, at - 20)),
      ...replays(2, (at) => 7e6 + (at > 30 ? 1 : 0)),
    ];
    const { incidents } = judge(trace(run), samples);
    assert.deepEqual(
      incidents.map(({ kind, subject }) => [kind, subject.gpu]),
      [['nvlink_stall', 'GPU-5']],
    );
    assert.ok(Number(incidents[0]?.evidence.nvlink_errors) >= 1000);
  });

  it('name the link that runs slower than the others', () => {
    const phases: TraceSpec['phases'] = (step) => [
      { phase: 'fwd', ms: 400 },
      { phase: 'allreduce', ms: step < 40 ? 90 : 110, bytes: 1 << 28, group: 'tp' },
    ];
    const period = (step: number): number => (step < 40 ? 500 : 520);
    const samples = gpus.flatMap(({ gpu }) =>
      ['0', '1', '2', '3'].map((link) =>
        sampleAt(20, {
          ...{ host: 'node-a', gpu, link, name: 'nvlink_speed' },
          value: gpu === 'GPU-5' && link === '2' ? 13_281 : 26_562,
        }),
      ),
    );
    const { incidents } = judge(trace({ ranks: 8, steps: 100, period, phases, meta: { ranks: gpus } }), samples);
    assert.deepEqual(
      incidents.map(({ kind, subject }) => [kind, subject.gpu, subject.link]),
      [['nvlink_stall', 'GPU-5', '2']],
    );
  });

  it('say why one computes slowly, where the others do not say the same', () => {
    const phases: TraceSpec['phases'] = (step, rank) => {
      const [own, most] = step < 40 ? [80, 80] : [rank === 2 ? 128 : 80, 128];
      return [
        { phase: 'fwd', ms: own },
        { phase: 'allreduce', ms: 5 + most - own, group: 'dp' },
      ];
    };
    const period = (step: number): number => (step < 40 ? 86 : 134);
    const run: TraceSpec = { ranks: 8, steps: 400, period, phases, meta: { ranks: gpus } };
    const samples = gpus.map((_, gpu) => gauge(gpu, 'clocks_event_reasons', gpu === 2 ? 0x4 | 0x40 : 0x4));
    const { incidents } = judge(trace(run), samples);
    assert.deepEqual(
      incidents.map(({ kind, subject, evidence }) => [kind, subject.ranks, evidence.throttled]),
      [['straggler', [2], 'hardware thermal slowdown']],
    );
  });
});
