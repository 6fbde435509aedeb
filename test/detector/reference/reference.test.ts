import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { CommGroup, CommSize } from '../../../detector/pipeline/collectives.js';
import { ALARM, accumulate, lostShare, newCusum, onsetOf } from '../../../detector/reference/cusum.js';
import { newNoise, observeNoise, renewNoise } from '../../../detector/reference/noise.js';
import { lowerMedian, median, quantile, trimmedMean } from '../../../detector/reference/statistics.js';
import { learnTransfer, type TransferPast, usualTransfer } from '../../../detector/reference/transfer-past.js';
import { adjustOffset, expected, newWorkModel, refit, takeSample } from '../../../detector/reference/work-model.js';
import { mulberry32 } from '../../support/trace.js';

describe('what work should take', () => {
  const learnt = (samples: [number, number][]) => {
    const model = newWorkModel();
    for (const [tokens, work] of samples) {
      takeSample(model, tokens, work);
      refit(model);
    }
    return model;
  };

  it('is the median where tokens are equal', () => {
    const model = learnt([1, 2, 3, 4, 5, 6, 7, 100].map((work) => [512, work * 1e6]));
    assert.equal(expected(model, 0, 512), 4.5e6);
  });

  it('is unknown from few samples', () => {
    assert.ok(Number.isNaN(expected(learnt([[1, 1]]), 0, 1)));
  });

  it('is a line through tokens where they vary, and slow samples do not bend it', () => {
    const random = mulberry32(3);
    const samples = Array.from({ length: 200 }, (_, i): [number, number] => {
      const tokens = 500 + 15_000 * random();
      const honest = 2e6 + 3500 * tokens * (1 + 0.04 * (random() - 0.5));
      return [tokens, i % 10 === 0 ? 2 * honest : honest];
    });
    const model = learnt(samples);
    for (const tokens of [1000, 4000, 12_000]) {
      const ratio = expected(model, 0, tokens) / (2e6 + 3500 * tokens);
      assert.ok(Math.abs(ratio - 1) < 0.02, `${ratio} at ${tokens} tokens`);
    }
  });

  it("follows a rank's own offset only as far as GPUs differ by nature", () => {
    const model = learnt(Array.from({ length: 8 }, () => [1, 1e6]));
    for (let i = 0; i < 100; i++) {
      adjustOffset(model, 1, 1, 1.01e6);
      adjustOffset(model, 2, 1, 1.2e6);
    }
    assert.ok(Math.abs(expected(model, 1, 1) / 1.01e6 - 1) < 0.001);
    assert.ok(expected(model, 2, 1) < 1.031e6);
  });
});

describe('the alarm', () => {
  const noise = { ...newNoise(), scale: 0.01, hitRate: 0.005 };
  /** Steps until the alarm for shares of the step that are lost; undefined: none. */
  const alarmAt = (shares: number[]): number | undefined => {
    const cusum = newCusum();
    const at = shares.findIndex((share, step) => {
      accumulate(cusum, step, share * 1e6, 1e6, noise);
      return cusum.sum > ALARM;
    });
    return at < 0 ? undefined : at;
  };
  const repeat = (n: number, pattern: number[]): number[] =>
    Array.from({ length: n }, (_, i) => pattern[i % pattern.length] as number);

  it('comes at the third slow step in a row', () => {
    assert.equal(alarmAt(repeat(10, [0.2])), 2);
  });

  it('comes for a rank that is slow in every second step', () => {
    assert.equal(alarmAt(repeat(20, [0.2, 0])), 4);
  });

  it('does not come for pauses now and then, however long', () => {
    assert.equal(alarmAt(repeat(1000, [0.9, 0, 0, 0, 0, 0])), undefined);
  });

  it('is slower to believe slow steps where healthy ranks have them too', () => {
    const often = { ...noise, hitRate: 0.05 };
    const cusum = newCusum();
    for (let step = 0; step < 3; step++) accumulate(cusum, step, 2e5, 1e6, often);
    assert.ok(cusum.sum < ALARM);
  });

  it('does not come in a million steps of noise as it was measured', () => {
    const random = mulberry32(11);
    const gauss = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    assert.equal(alarmAt(Array.from({ length: 1_000_000 }, () => 0.01 * gauss())), undefined);
  });

  it('says since when, and how much was lost', () => {
    const cusum = newCusum();
    for (const [step, share] of [0, 0.012, 0, 0.1, 0.1].entries()) accumulate(cusum, step, share * 1e6, 1e6, noise);
    assert.equal(onsetOf(cusum), 3);
    assert.equal(Math.round(1000 * lostShare(cusum)), 100);
  });
});

describe('noise', () => {
  const scaleOf = (values: number[]) => {
    const noise = newNoise();
    for (const value of values) {
      observeNoise(noise, 0, value);
      renewNoise(noise);
    }
    return noise;
  };
  const random = mulberry32(5);
  const gauss = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const white = Array.from({ length: 900 }, () => 0.03 * gauss());

  it('is one standard deviation of independent steps', () => {
    assert.ok(Math.abs(scaleOf(white).scale - 0.03) < 0.007, String(scaleOf(white).scale));
  });

  it('counts for more where neighbouring steps are alike', () => {
    let last = 0;
    const alike = white.map((value) => (last = 0.8 * last + Math.sqrt(1 - 0.64) * value));
    assert.ok(scaleOf(alike).scale > 2 * scaleOf(white).scale);
  });

  it('leaves rare pauses to the hit rate', () => {
    const paused = white.map((value, i) => (i % 25 === 0 ? 0.8 : value));
    const { scale, hitRate } = scaleOf(paused);
    assert.ok(scale < 0.05, String(scale));
    assert.ok(Math.abs(hitRate - 0.04) < 0.01, String(hitRate));
  });
});

describe('robust statistics', () => {
  const numbers = fc.array(fc.double({ min: -1e9, max: 1e9, noNaN: true }), { minLength: 1, maxLength: 40 });

  it('lie within their data, and NaN is left out', () => {
    fc.assert(
      fc.property(numbers, (values) => {
        const withUnknown = [Number.NaN, ...values, Number.NaN];
        for (const statistic of [lowerMedian, median, trimmedMean]) {
          const value = statistic(withUnknown);
          assert.ok(value >= Math.min(...values) - 1e-3 && value <= Math.max(...values) + 1e-3);
        }
        assert.ok(lowerMedian(values) <= median(values));
      }),
    );
  });

  it('take the healthy half for the rule', () => {
    assert.equal(lowerMedian([1, 1, 9, 9]), 1);
    assert.equal(median([1, 1, 9, 9]), 5);
    assert.equal(quantile(Float64Array.of(0, 10), 0.25), 2.5);
  });
});

describe('what transfers take', () => {
  const group = { name: 'tp' } as CommGroup;
  const size = (bytes: number): CommSize => ({
    key: `${bytes}`,
    op: 'all_reduce',
    bytes,
    count: 2,
    transfer: 2 * bytes,
  });

  it('is kept of the sizes that come again, however many others there are', () => {
    const past: TransferPast = new Map();
    for (let step = 0; step < 5000; step++) {
      learnTransfer(past, group, size(1_000_000 + step), step);
      if (step % 100 === 0) learnTransfer(past, group, size(8), step);
      if (step < 1000) learnTransfer(past, group, size(16), step);
    }
    assert.equal(usualTransfer(past, group, size(16)), 16);
    assert.equal(usualTransfer(past, group, size(8)), 8);
    assert.ok((past.get('tp')?.size ?? 0) <= 256);
  });
});
