import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Incident } from '../../protocol/incident.js';
import { judge, type Sample, sampleAt, type TraceSpec, trace } from '../support/trace.js';

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
  const events = outages.flatMap(([down, up]) => [
    event(down, 'port_down', 'node-b', 'nic3'),
    event(up, 'port_up', 'node-b', 'nic3'),
  ]);

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
