import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type SimulateOptions, truth } from '../../simulator/simulate.js';
import { groupBy, median, type SimulatedRow, simulatedRows } from './rows.js';

const COMPUTE = new Set(['forward', 'backward']);
const ALL_16 = Array.from({ length: 16 }, (_, rank) => rank);

/** Median duration of the named ranks' phases over that of their peers. */
function ratio(rows: SimulatedRow[], named: (row: SimulatedRow) => boolean, phases: ReadonlySet<string>): number {
  const relevant = rows.filter((row) => phases.has(row.phase));
  const byPhase = [...phases].map((phase) => {
    const durations = (yes: boolean): number[] =>
      relevant.filter((row) => row.phase === phase && named(row) === yes).map((row) => row.dur);
    return median(durations(true)) / median(durations(false));
  });
  return median(byPhase);
}

function injected(options: SimulateOptions) {
  const [what] = truth(options);
  assert.ok(what);
  const rows = simulatedRows(options);
  const from = (lo: number, hi: number): SimulatedRow[] => rows.filter((row) => row.step >= lo && row.step < hi);
  return { what, before: from(2, what.onset_step), after: from(what.onset_step, what.end_step ?? options.steps), from };
}

test('a compute straggler computes slower by the strength, and nothing else of it changes', () => {
  for (const [seed, strength] of [
    [1, 0.05],
    [2, 0.2],
    [3, 0.5],
  ] as const) {
    const { what, before, after } = injected({ scenario: 'straggler', ranks: 8, steps: 120, seed, strength });
    const slow = (row: SimulatedRow): boolean => row.rank === what.subject.ranks?.[0];
    const grown = ratio(after, slow, COMPUTE) / ratio(before, slow, COMPUTE);
    assert.ok(Math.abs(grown - (1 + strength)) < 0.015, `${grown} at ${strength}`);
    for (const phase of ['optimizer', 'dataload', 'host_gap'])
      assert.ok(Math.abs(ratio(after, slow, new Set([phase])) - 1) < 0.1, phase);
  }
});

test('a fault ends where it says', () => {
  const { what, after, from } = injected({
    ...{ scenario: 'straggler', ranks: 4, steps: 90, seed: 1, onset: 30, end: 60, rank: 2, strength: 0.4 },
  });
  assert.equal(what.end_step, 60);
  const slow = (row: SimulatedRow): boolean => row.rank === 2;
  assert.ok(ratio(after, slow, COMPUTE) > 1.35);
  assert.ok(Math.abs(ratio(from(60, 90), slow, COMPUTE) - 1) < 0.03);
});

test('a host or data straggler starts late by the strength of a step; its compute stays', () => {
  for (const [scenario, phase] of [
    ['straggler-host', 'host_gap'],
    ['straggler-data', 'dataload'],
  ] as const)
    for (const layout of [{ dp: 8 }, { dp: 2, pp: 4 }]) {
      const { what, before, after } = injected({ scenario, ranks: 8, steps: 90, seed: 3, strength: 0.3, layout });
      const rank = what.subject.ranks?.[0];
      const own = (rows: SimulatedRow[]): number =>
        median(rows.filter((row) => row.rank === rank && row.phase === phase).map((row) => row.dur));
      const healthyStep = median(before.filter((row) => row.phase === 'step').map((row) => row.dur));
      const delay = (own(after) - own(before)) / healthyStep;
      assert.ok(Math.abs(delay / 0.3 - 1) < 0.15, `${scenario} ${JSON.stringify(layout)}: ${delay}`);
      assert.ok(Math.abs(ratio(after, (row) => row.rank === rank, COMPUTE) - 1) < 0.03);
    }
});

test('a heavy stage computes more on all its ranks, and only there', () => {
  for (const stage of [0, 2, 3]) {
    const options = { scenario: 'stage', ranks: 16, steps: 40, seed: 3, stage, strength: 0.4 };
    const rows = simulatedRows(options);
    assert.deepEqual(truth(options)[0]?.subject, { stage });
    const computes = groupBy(
      rows.filter((row) => row.step > 1 && COMPUTE.has(row.phase)),
      (row) => `${row.rank} ${row.phase}`,
    );
    const typical = (rank: number, phase: string): number =>
      median((computes.get(`${rank} ${phase}`) ?? []).map((row) => row.dur));
    for (const phase of COMPUTE) {
      const others = median(ALL_16.filter((rank) => rank >> 2 !== stage).map((rank) => typical(rank, phase)));
      for (const rank of ALL_16) {
        const factor = typical(rank, phase) / others;
        assert.ok(Math.abs(factor - (rank >> 2 === stage ? 1.4 : 1)) < 0.04, `rank ${rank} ${phase}: ${factor}`);
      }
    }
  }
});

test('a serving host straggler leaves its own phases alone and lengthens the all-reduce of the others', () => {
  const { what, before, after } = injected({ scenario: 'serving-straggler-host', ranks: 4, steps: 300, seed: 3 });
  const slow = (row: SimulatedRow): boolean => row.rank === what.subject.ranks?.[0];
  const decode = (rows: SimulatedRow[], phase: string, yes: boolean): number =>
    median(rows.filter((row) => row.graph === 8 && row.phase === phase && slow(row) === yes).map((row) => row.dur));
  for (const phase of ['attention', 'mlp', 'all_reduce'])
    assert.ok(Math.abs(decode(after, phase, true) / decode(before, phase, true) - 1) < 0.05, phase);
  const waited = decode(after, 'all_reduce', false) - decode(before, 'all_reduce', false);
  assert.ok(Math.abs(waited / (what.strength * 2.039e6) - 1) < 0.05, `${waited} ns`);
});

test('healthy runs name nobody and have no rank apart from its peers', () => {
  const rows = simulatedRows({ scenario: 'healthy', ranks: 16, steps: 150, seed: 8 });
  for (let rank = 0; rank < 16; rank++) {
    const factor = ratio(rows, (row) => row.rank === rank, COMPUTE);
    assert.ok(Math.abs(factor - 1) < 0.025, `rank ${rank}: ${factor}`);
  }
});
