import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
  bandOf,
  type Calibration,
  calibrate,
  MIN_RESIDUALS,
  type Residual,
  upperPValue,
  WORK_SPREAD,
} from '../../../detector/baseline/conformal.js';
import { seededRandom } from '../../../detector/baseline/random.js';

/** Standard normal deviates (Box-Muller). */
function normals(seed: number): () => number {
  const random = seededRandom(seed);
  return () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

/** Residuals of runs whose run, rank and step effects have the given standard deviations. */
function fleet(seed: number, runs: number, ranks: number, steps: number, sd: [number, number, number]): Residual[] {
  const normal = normals(seed);
  return Array.from({ length: runs }, (_, run) => {
    const runEffect = sd[0] * normal();
    return Array.from({ length: ranks }, (_, rank) => {
      const effect = runEffect + sd[1] * normal();
      return Array.from({ length: steps }, () => ({ run, rank, value: effect + sd[2] * normal() }));
    });
  }).flat(2);
}

const covered = (calibration: Calibration, residuals: readonly Residual[]): number => {
  const { q05, q95 } = bandOf(calibration, 0);
  return residuals.filter(({ value }) => Math.exp(value) >= q05 && Math.exp(value) <= q95).length / residuals.length;
};

const calibrated = (residuals: readonly Residual[], checked: readonly Residual[] = []): Calibration => {
  const calibration = calibrate(residuals, checked, WORK_SPREAD);
  assert.ok(calibration);
  return calibration;
};

describe('calibration', () => {
  it('holds nine of ten steps of runs it has not seen, where runs and ranks differ', () => {
    const shares = Array.from({ length: 20 }, (_, trial) => {
      const seen = fleet(trial, 10, 4, 30, [0.015, 0.01, 0.01]);
      return covered(calibrated(seen), fleet(1000 + trial, 40, 4, 10, [0.015, 0.01, 0.01]));
    });
    const mean = shares.reduce((sum, share) => sum + share, 0) / shares.length;
    assert.ok(mean > 0.87 && mean < 0.93, `${mean}`);
  });

  it('does not take one run for all: what its steps alone say would hold far fewer', () => {
    const shares = Array.from({ length: 20 }, (_, trial) => {
      const seen = fleet(trial, 1, 4, 200, [0.01, 0.007, 0.002]);
      const unseen = fleet(1000 + trial, 40, 4, 10, [0.01, 0.007, 0.002]);
      const alone = calibrate(seen, [], { run: 0, rank: 0 });
      assert.ok(alone);
      return [covered(calibrated(seen), unseen), covered(alone, unseen)] as const;
    });
    const [widened, alone] = [0, 1].map((i) => shares.reduce((sum, pair) => sum + (pair[i] as number), 0) / 20);
    assert.ok((widened as number) > 0.85, `${widened}`);
    assert.ok((alone as number) < 0.7, `${alone}`);
  });

  it('gives p-values that are uniform for healthy runs', () => {
    const p = Array.from({ length: 100 }, (_, trial) => {
      const calibration = calibrated(fleet(trial, 30, 4, 30, [0.01, 0.007, 0.01]));
      return fleet(1000 + trial, 100, 4, 5, [0.01, 0.007, 0.01]).map(({ value }) => upperPValue(calibration, value));
    }).flat();
    for (const level of [0.05, 0.25, 0.5, 0.9]) {
      const share = p.filter((one) => one <= level).length / p.length;
      assert.ok(Math.abs(share - level) < 0.02, `${share} at ${level}`);
    }
  });

  it('reports the coverage of steps that were held out', () => {
    const [seen, checked] = [fleet(3, 1, 1, 400, [0, 0, 0.01]), fleet(4, 1, 1, 400, [0, 0, 0.01])];
    const { coverage } = calibrated(seen, checked);
    assert.ok(coverage !== null && coverage > 0.8 && coverage < 0.97, `${coverage}`);
    assert.equal(calibrated(seen).coverage, null);
  });

  it('refuses too few residuals', () => {
    const few = fleet(5, 1, 1, MIN_RESIDUALS - 1, [0, 0, 0.01]);
    assert.equal(calibrate(few, [], WORK_SPREAD), undefined);
    assert.ok(calibrate([...few, ...few], [], WORK_SPREAD));
  });
});

describe('p-values', () => {
  const calibration = calibrated(fleet(6, 2, 2, 100, [0.01, 0.01, 0.01]));

  it('fall as durations grow, within (0, 1]', () => {
    fc.assert(
      fc.property(
        fc.double({ min: -2, max: 2, noNaN: true }),
        fc.double({ min: 0, max: 2, noNaN: true }),
        (a, more) => {
          const [p, q] = [upperPValue(calibration, a), upperPValue(calibration, a + more)];
          assert.ok(p > 0 && p <= 1 && q <= p);
        },
      ),
    );
  });

  it('tell apart what lies beyond every residual, without a jump', () => {
    const longest = calibration.residuals.at(-1) as number;
    const n = calibration.residuals.length;
    assert.ok(Math.abs(upperPValue(calibration, longest + 1e-9) - 1 / (n + 1)) < 1e-3 / n);
    assert.ok(upperPValue(calibration, longest + 0.1) < upperPValue(calibration, longest + 0.05));
    assert.equal(upperPValue(calibration, 50), 1e-9);
  });
});
