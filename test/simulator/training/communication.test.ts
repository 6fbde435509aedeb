import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BLOCKING_OPS } from '../../../protocol/vocabulary.js';
import { NOISE } from '../../../simulator/measured.js';
import { type SimulateOptions, truth } from '../../../simulator/simulate.js';
import { groupBy, median, type SimulatedRow, simulatedRows } from '../rows.js';

const run = { ranks: 16, steps: 40, seed: 5, job: 'j', layout: { dp: 2, tp: 8 } };

/** Transfer of each collective, by what it is: the shortest of its ranks' durations. */
function transfers(options: SimulateOptions): Map<string | number, number> {
  const collectives = groupBy(
    simulatedRows(options).filter((row) => BLOCKING_OPS.has(row.phase) || ['send', 'recv'].includes(row.phase)),
    (row) => [row.step, row.group, row.seq, row.microbatch].join(),
  );
  return new Map([...collectives].map(([key, rows]) => [key, Math.min(...rows.map((row) => row.dur))]));
}

/** By step and group: how much longer transfers take than in the healthy run, which has the same noise. */
function slowed(options: SimulateOptions): { step: number; group: string; ratio: number }[] {
  const { strength, onset, end, rank, ...rest } = options;
  const healthy = transfers({ ...rest, scenario: 'healthy' });
  return [...transfers(options)].map(([key, ns]) => {
    const [step, group] = String(key).split(',') as [string, string];
    return { step: Number(step), group, ratio: ns / (healthy.get(key) as number) };
  });
}

/** Ends of one collective scatter, and waits of a run shift with the clock: small against any strength. */
const near = (ratio: number, expected: number): boolean => Math.abs(ratio / expected - 1) < 0.01;

test('a slow link slows its groups by the strength from the onset to the end, and nothing else', () => {
  for (const scenario of ['nvlink-stall', 'comm-slow', 'comm-slow-host', 'comm-slow-group']) {
    const options = { ...run, scenario, strength: 0.7, onset: 10, end: 30, rank: 13 };
    const groups = truth(options)[0]?.subject.groups as string[];
    assert.ok(groups.length > 0);
    const seen = new Set<string>();
    for (const { step, group, ratio } of slowed(options)) {
      const strikes = step >= 10 && step < 30 && groups.includes(group);
      assert.ok(near(ratio, strikes ? 1.7 : 1), `${scenario} step ${step} ${group}: ${ratio}`);
      if (strikes) seen.add(group);
    }
    assert.deepEqual([...seen].sort(), [...groups].sort());
  }
});

test('whom a slow link hits: the groups of a GPU within its host, of a NIC, of a host, or one group', () => {
  const subject = (scenario: string, layout = run.layout) => truth({ ...run, layout, scenario, rank: 13 })[0]?.subject;
  assert.deepEqual(subject('nvlink-stall'), { hosts: ['node-0001'], gpu: 'GPU-1-5', groups: ['tp-s0-d1'] });
  assert.deepEqual(subject('comm-slow'), { hosts: ['node-0001'], nic: 'mlx5_5', groups: ['dp-s0-t5'] });
  assert.deepEqual(subject('comm-slow-host')?.groups?.length, 8);
  assert.deepEqual(subject('comm-slow-group'), { hosts: ['node-0000', 'node-0001'], groups: ['dp-s0-t5'] });
  assert.deepEqual(subject('comm-slow', { dp: 16, tp: 1 })?.groups, ['dp-s0-t0']);
});

test('only large messages are slow: the norm of the gradients stays as it is', () => {
  const options = { ...run, scenario: 'comm-slow-host', rank: 3, onset: 10, layout: { dp: 2, tp: 4, pp: 2 } };
  const after = slowed(options).filter(({ step }) => step >= 10);
  const ratio = (named: RegExp): number =>
    median(after.filter(({ group }) => named.test(group)).map((row) => row.ratio));
  assert.ok(near(ratio(/^world/), 1));
  assert.ok(near(ratio(/^embedding/), 2));
});

test('without NVLink all-reduces of 67 MB take 7.3 times as long from the first step on', () => {
  const options = { ...run, scenario: 'nvlink-from-start', rank: 2 };
  const groups = truth(options)[0]?.subject.groups as string[];
  for (const { group, ratio } of slowed(options))
    assert.ok(near(ratio, groups.includes(group) ? 1 + 2.4 * 2.64 : 1), `${group} ${ratio}`);
});

test('a flapping port slows in bursts and leaves the median alone', () => {
  const options = { ...run, steps: 300, scenario: 'rnic-flap', rank: 13, onset: 50, strength: 4 };
  const own = slowed(options).filter(({ group }) => group === 'dp-s0-t5');
  for (const { ratio } of own) assert.ok(near(ratio, 1) || near(ratio, 5), `${ratio}`);
  const struck = own.filter(({ ratio }) => ratio > 2).map(({ step }) => step);
  assert.equal(Math.min(...struck), 50);
  const bursts = struck.filter((step) => !struck.includes(step - 1));
  assert.ok(bursts.length >= 4, `${bursts}`);
  const after = own.filter(({ step }) => step >= 50);
  assert.ok(near(median(after.map(({ ratio }) => ratio)), 1));
});

test('a slow transfer makes all ranks of the group longer by as much: nobody waits more than before', () => {
  const waits = (scenario: string): number[] =>
    [
      ...groupBy(
        simulatedRows({ ...run, scenario, ...(scenario !== 'healthy' && { rank: 3, onset: 2 }) }).filter(
          (row) => row.group === 'dp-s0-t3' && row.step >= 5,
        ),
        (row) => row.step,
      ).values(),
    ].map((rows) => Math.max(...rows.map((row) => row.dur)) - Math.min(...rows.map((row) => row.dur)));
  const [slow, healthy] = [median(waits('comm-slow')), median(waits('healthy'))];
  assert.ok(Math.abs(slow - healthy) < 0.2 * healthy, `${slow} ${healthy}`);
});

const ENDS = 12 * NOISE.collectiveEndNs;
const byRank = (rows: SimulatedRow[]): Map<string | number, SimulatedRow[]> => groupBy(rows, (row) => row.rank);

test('a rank that never comes leaves every other rank in an open phase that grows', () => {
  for (const layout of [{ dp: 16 }, { dp: 2, tp: 8 }, { dp: 1, tp: 4, pp: 4 }, { dp: 2, tp: 2, pp: 4 }]) {
    const options = { ...run, layout, scenario: 'comm-hang', rank: 6, onset: 20 };
    const rows = simulatedRows(options);
    // Ranks whose groups are complete go on to the next step.
    assert.equal(rows.filter((row) => row.phase === 'step' && row.step > 20).length, 0);
    assert.ok(Math.max(...rows.map((row) => row.step)) <= 21);
    // The first steps are slow too.
    const open = byRank(rows.filter((row) => row.open && row.step >= 20));
    assert.deepEqual(
      [...open.keys()].sort((a, b) => Number(a) - Number(b)),
      Array.from({ length: 16 }, (_, rank) => rank).filter((rank) => rank !== 6),
    );
    for (const own of open.values()) {
      const phases = [...groupBy(own, (row) => `${row.phase} ${row.group} ${row.seq}`).values()];
      for (const phase of phases) {
        assert.equal(new Set(phase.map((row) => row.start)).size, 1);
        assert.equal(phase.length, 19);
        for (const [i, row] of phase.entries())
          if (i > 0) assert.ok(row.dur > (phase[i - 1] as SimulatedRow).dur + 0.9e9);
      }
    }
    const groups = new Set([...open.values()].flat().map((row) => row.group));
    assert.ok(groups.size > 0 && ![...groups].includes(''));
  }
});

test('a rank that comes late ends the hang: the collective took as long as it was away, then all goes on', () => {
  const options = { ...run, scenario: 'comm-hang', rank: 6, onset: 20, hangSeconds: 30 };
  const rows = simulatedRows(options);
  assert.equal(rows.filter((row) => row.phase === 'step').length, 16 * 40);
  const struck = rows.filter((row) => row.step === 20 && row.group === 'dp-s0-t6');
  const closed = struck.filter((row) => !row.open);
  const [late, other] = [6, 14].map((rank) => closed.find((row) => row.rank === rank) as SimulatedRow);
  assert.ok(Math.abs((other?.dur as number) - (late?.dur as number) - 30e9) < 0.5e9);
  assert.ok(Math.abs((other?.end as number) - (late?.end as number) - hostOffset(rows)) < ENDS);
  const open = struck.filter((row) => row.open);
  assert.deepEqual(
    open.map((row) => [row.rank, Math.round(row.dur / 1e9)]),
    Array.from({ length: 29 }, (_, i) => [14, i + 1]).concat(open.length === 30 ? [[14, 30]] : []),
  );
  assert.ok(rows.indexOf(other as SimulatedRow) > rows.indexOf(open.at(-1) as SimulatedRow));
});

/** Clock of the second host over that of the first: what their ends of one collective always differ by. */
function hostOffset(rows: SimulatedRow[]): number {
  const ends = (rank: number): number[] =>
    rows
      .filter((row) => row.rank === rank && row.group === 'dp-s0-t6' && row.step < 20 && !row.open)
      .map((row) => row.end);
  const [first, second] = [ends(6), ends(14)];
  return median(first.map((end, i) => (second[i] as number) - end));
}

test('rows of a long step come in the order in which collectors have them', () => {
  const options = { ...run, scenario: 'comm-hang', rank: 6, onset: 20, hangSeconds: 30 };
  const rows = simulatedRows(options).filter((row) => row.step === 20);
  const known = rows.map((row) => row.end);
  // Hosts' clocks differ, and messages hold what a second brought.
  for (const [i, at] of known.entries()) assert.ok(at > Math.max(...known.slice(0, i)) - 1.1e9);
});
