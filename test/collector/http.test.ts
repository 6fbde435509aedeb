import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Registry } from 'prom-client';
import { buildServer } from '../../collector/http.js';
import { PhaseDurations } from '../../collector/phase-durations.js';
import type { PhaseKey } from '../../collector/phase-table.js';
import { hostLane, TraceRing } from '../../collector/trace-ring.js';

const key = (name: string, kind: number): PhaseKey => ({
  name,
  kind,
  op: kind === 1 ? 'all_reduce' : '',
  group: '',
  text: name,
  itemised: false,
  blocking: false,
});
const KEYS = [key('mlp', 0), key('all_reduce', 1)];
const BASE = 1_770_000_000_000_000_000n;

interface Event {
  ph: string;
  name: string;
  pid: number;
  tid: number;
  ts: number;
  dur: number;
  cat: string;
  args: Record<string, unknown>;
}

function traceOf(ring: TraceRing, since: number): { base: number; events: Event[]; names: Record<string, unknown>[] } {
  const text = [...ring.json(since)].join('');
  const { traceEvents } = JSON.parse(text) as { traceEvents: Event[] };
  return {
    base: Number(BigInt(/"baseTimeNanoseconds":(\d+)/.exec(text)?.[1] as string) - BASE),
    events: traceEvents.filter(({ ph }) => ph === 'X'),
    names: traceEvents
      .filter(({ name }) => name.endsWith('_name'))
      .map(({ name, pid, tid, args }) => ({ name, pid, tid, ...args })),
  };
}

describe('the trace of the last seconds', () => {
  it('has the phases that ended since, on the lanes and threads that they ran on', () => {
    const ring = new TraceRing(100, BASE);
    const source = ring.addSource({ name: 'job rank 0', keys: KEYS }, new Set());
    ring.add(source, 0, 2, 1000, 500, 7);
    ring.add(source, 1, 2, 2000, 1234, 7);
    ring.add(source, 0, hostLane(4321), 3000, 10, -1);
    const { base, events, names } = traceOf(ring, 1600);
    assert.deepEqual(events, [
      {
        ph: 'X',
        name: 'all_reduce',
        cat: 'comm',
        pid: source,
        tid: 2,
        ts: 0.4,
        dur: 1.234,
        args: { step: 7, op: 'all_reduce' },
      },
      { ph: 'X', name: 'mlp', cat: 'compute', pid: source, tid: 4096 + 4321, ts: 1.4, dur: 0.01, args: { step: -1 } },
    ]);
    assert.equal(base, 1600);
    assert.deepEqual(
      names,
      [
        { name: 'thread_name', pid: source, tid: 2 },
        { name: 'process_name', pid: source, tid: undefined },
        { name: 'thread_name', pid: source, tid: 4096 + 4321 },
      ].map((event, i) => ({
        ...event,
        ...[{ name: 'lane 2' }, { name: 'job rank 0' }, { name: 'host thread 4321' }][i],
      })),
    );
  });

  it('keeps the newest in bounded memory, and is JSON also when it is empty', () => {
    const ring = new TraceRing(4, BASE);
    assert.deepEqual(traceOf(ring, 0).events, []);
    const source = ring.addSource({ name: '', keys: KEYS }, new Set());
    for (let i = 0; i < 10; i++) ring.add(source, 0, 0, 1000 * i, 1, i);
    assert.deepEqual(
      traceOf(ring, 0).events.map(({ args }) => args.step),
      [6, 7, 8, 9],
    );
  });

  it('forgets the names of segments that have no phase in it', () => {
    const ring = new TraceRing(2, BASE);
    const [first, live] = ['first', 'live'].map((name) => ring.addSource({ name, keys: KEYS }, new Set([1]))) as [
      number,
      number,
    ];
    ring.add(first, 0, 0, 0, 1, 1);
    for (let i = 0; i < 2; i++) ring.add(ring.addSource({ name: 'new', keys: KEYS }, new Set([live])), 0, 0, 10, 1, 2);
    assert.deepEqual(
      traceOf(ring, 0).events.map(({ name }) => name),
      ['mlp', 'mlp'],
    );
    const last = ring.addSource({ name: 'last', keys: KEYS }, new Set([live]));
    ring.add(live, 0, 0, 10, 1, 2);
    ring.add(last, 0, 0, 10, 1, 2);
    assert.deepEqual(traceOf(ring, 0).names.filter(({ name }) => name === 'live' || name === 'last').length, 2);
  });
});

describe('the HTTP interface', () => {
  const serve = (reasons: string[] = []) => {
    const registry = new Registry();
    const durations = new PhaseDurations(registry);
    const app = buildServer({ registry, reasons: () => reasons, trace: (seconds) => [`{"seconds":`, `${seconds}}`] });
    return { app, durations };
  };

  it('tells health, and why it is not ready', async () => {
    const { app } = serve();
    assert.equal((await app.inject('/healthz')).statusCode, 200);
    assert.equal((await app.inject('/readyz')).statusCode, 200);
    const away = await serve(['kafka takes no messages: nobody answers']).app.inject('/readyz');
    assert.equal(away.statusCode, 503);
    assert.equal(away.headers['content-type'], 'application/problem+json');
    assert.equal(away.json().detail, 'kafka takes no messages: nobody answers');
  });

  it('streams the trace and refuses other questions', async () => {
    const { app } = serve();
    const answer = await app.inject('/trace?seconds=2.5');
    assert.deepEqual([answer.statusCode, answer.json()], [200, { seconds: 2.5 }]);
    assert.deepEqual((await app.inject('/trace')).json(), { seconds: 10 });
    for (const path of ['/trace?seconds=0', '/trace?seconds=x', '/trace?second=1', '/trace?seconds=9999'])
      assert.equal((await app.inject(path)).statusCode, 400, path);
    assert.equal((await app.inject('/nothing')).statusCode, 404);
  });

  it('shows durations of phases, whatever their names', async () => {
    const { app, durations } = serve();
    for (const [name, kind, ns] of [
      ['mlp', 0, 20_000],
      ['mlp', 0, 200_000],
      ['my_kernel_1', 0, 3e9],
      ['my_kernel_2', 0, 90e9],
      ['all_reduce', 1, 10_000],
    ] as const)
      durations.observe(durations.seriesOf({ name, kind }), ns);
    const text = (await app.inject('/metrics')).body;
    const value = (line: string) =>
      text
        .split('\n')
        .find((one) => one.startsWith(`picket_phase_duration_seconds_${line} `))
        ?.split(' ')[1];
    assert.equal(value('bucket{phase="mlp",kind="compute",le="0.00001"}'), '0');
    assert.equal(value('bucket{phase="mlp",kind="compute",le="0.000025"}'), '1');
    assert.equal(value('bucket{phase="mlp",kind="compute",le="+Inf"}'), '2');
    assert.equal(value('sum{phase="mlp",kind="compute"}'), '0.00022');
    assert.equal(value('bucket{phase="other",kind="compute",le="60"}'), '1');
    assert.equal(value('count{phase="other",kind="compute"}'), '2');
    assert.equal(value('bucket{phase="all_reduce",kind="comm",le="0.00001"}'), '1');
    assert.ok(!text.includes('my_kernel'));
    assert.match(text, /# TYPE picket_phase_duration_seconds histogram/);
  });
});
