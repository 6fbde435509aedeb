import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SCENARIOS, simulate, truth } from '../../simulator/simulate.js';
import { simulatedRows } from './rows.js';

/** What generating 30,000 GPU-hours may take on one processor; a detector needs about as long to read them. */
const BUDGET_SECONDS = 3600;

for (const [scenario, { workload }] of Object.entries(SCENARIOS))
  if (scenario.startsWith('healthy-load-'))
    test(`${scenario}: nothing is wrong, and 30,000 GPU-hours of it are cheap`, () => {
      const options = {
        ...{ scenario, ranks: 64, steps: 150, seed: 1 },
        ...(workload === 'training' ? { stepSeconds: 16 } : { stepSeconds: 1, detail: 'whole' as const }),
      };
      assert.deepEqual(truth(options), []);
      assert.ok(SCENARIOS[scenario]?.tolerates?.includes('transient_stall'));
      const began = process.cpuUsage();
      let endNs = 0n;
      for (const batch of simulate(options)) {
        const last = batch.columns.start_ns.bigint(batch.length - 1) - 1_770_000_000_000_000_000n;
        if (last > endNs) endNs = last;
      }
      const { user, system } = process.cpuUsage(began);
      const gpuHours = (Number(endNs) / 3600e9) * options.ranks;
      const seconds = ((user + system) / 1e6) * (30_000 / gpuHours);
      assert.ok(seconds < BUDGET_SECONDS, `${Math.round(seconds)} s`);
    });

test('healthy load holds what looks like trouble', () => {
  const run = { ranks: 8, seed: 3 };
  const trains = simulatedRows({ ...run, ranks: 4, scenario: 'healthy-load-training', steps: 4000 });
  assert.ok(new Set(trains.map((row) => row.run)).size >= 5);
  for (const phase of ['checkpoint', 'evaluation'])
    assert.ok(
      trains.some((row) => row.phase === phase && row.open),
      phase,
    );
  const inputs = trains.filter((row) => row.phase === 'dataload' && !row.open && row.dur > 0.6e9);
  assert.ok(inputs.length >= 4 && inputs.length < 4 * 12, 'loader stalls of all ranks');
  const serves = simulatedRows({ ...run, scenario: 'healthy-load-kv-full', steps: 6000 });
  const steps = serves.filter((row) => row.phase === 'step');
  assert.ok(steps.some((row) => row.usage > 0.9) && steps.every((row) => row.preempted === 0));
  const pauses = serves.filter((row) => row.phase === 'host_gap' && row.dur > 100e6);
  assert.ok(pauses.length >= 1 && pauses.length < 10, `${pauses.length}`);
});
