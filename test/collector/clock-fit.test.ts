import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { ClockFit } from '../../collector/clock-fit.js';
import { mulberry32 } from '../support/trace.js';

const SECOND = 1e9;

interface Clocks {
  offset: number;
  /** Relative rate difference. */
  drift: number;
  /** Half width of the brackets. */
  uncertainty: number;
  outliers: number;
  samples: number;
  seed: number;
}

/** Samples once a second of two clocks, errors uniform within the stated uncertainty; some are wrong by milliseconds. */
function fitted({ offset, drift, uncertainty, outliers, samples, seed }: Clocks): ClockFit {
  const random = mulberry32(seed);
  const fit = new ClockFit();
  for (let i = 0; i < samples; i++) {
    const x = i * SECOND;
    const wrong = random() < outliers ? (random() < 0.5 ? -1 : 1) * 5e6 * (1 + random()) : 0;
    fit.add(x, truth({ offset, drift }, x) + wrong + uncertainty * (2 * random() - 1), uncertainty);
  }
  return fit;
}

const truth = ({ offset, drift }: Pick<Clocks, 'offset' | 'drift'>, x: number): number => offset + x * (1 + drift);

const clocks = fc.record({
  offset: fc.integer({ min: -1e12, max: 1e12 }),
  drift: fc.double({ min: -50e-6, max: 50e-6, noNaN: true }),
  uncertainty: fc.integer({ min: 100, max: 20_000 }),
  outliers: fc.constantFrom(0, 0.05, 0.1),
  samples: fc.integer({ min: 8, max: 200 }),
  seed: fc.integer(),
});

describe('a fitted line between two clocks', () => {
  it('is right within what it states, at the newest sample and a second later', () => {
    fc.assert(
      fc.property(clocks, (spec) => {
        const fit = fitted(spec);
        for (const later of [0, SECOND]) {
          const x = (spec.samples - 1) * SECOND + later;
          const error = Math.abs(fit.at(x) - truth(spec, x));
          // Stated uncertainty is a half width of brackets; three of them leave nothing to chance.
          assert.ok(error <= 3 * fit.uncertainty(x), `${error} ns off, ${fit.uncertainty(x)} stated`);
        }
      }),
    );
  });

  it('is better than any of its samples once there are many', () => {
    fc.assert(
      fc.property(clocks, (spec) => {
        const fit = fitted({ ...spec, samples: 64, outliers: 0 });
        const x = 63 * SECOND;
        assert.ok(Math.abs(fit.at(x) - truth(spec, x)) < Math.max(spec.uncertainty, 64));
        assert.ok(Math.abs(fit.drift - spec.drift) < (4 * Math.max(spec.uncertainty, 64)) / (20 * SECOND));
      }),
    );
  });

  it('follows drift and states more the longer there was no sample', () => {
    const fit = fitted({ offset: 7, drift: 4e-6, uncertainty: 500, outliers: 0, samples: 30, seed: 1 });
    const last = 29 * SECOND;
    assert.ok(Math.abs(fit.drift - 4e-6) < 1e-7);
    const stated = [0, 10, 100, 1000].map((later) => fit.uncertainty(last + later * SECOND));
    assert.deepEqual(
      stated,
      stated.toSorted((a, b) => a - b),
    );
    assert.ok((stated[0] as number) < 1000 && (stated[3] as number) > (stated[0] as number));
  });

  it('takes the rate for 1 where there is one sample only, and states that this is a guess', () => {
    const fit = new ClockFit();
    assert.equal(fit.uncertainty(0), Number.POSITIVE_INFINITY);
    fit.add(1000, 5000, 100);
    assert.equal(fit.at(1000), 5000);
    assert.equal(fit.at(1000 + SECOND), 5000 + SECOND);
    assert.ok(fit.uncertainty(1000 + SECOND) > 10_000);
  });

  it('is begun anew after the clock has jumped', () => {
    const fit = fitted({ offset: 0, drift: 0, uncertainty: 200, outliers: 0, samples: 60, seed: 2 });
    const jump = 3e8;
    for (let i = 60; i < 70; i++) fit.add(i * SECOND, i * SECOND + jump, 200);
    const x = 69 * SECOND;
    assert.ok(Math.abs(fit.at(x) - (x + jump)) < 1000);
    assert.equal(fit.jumps, 1);
  });
});
