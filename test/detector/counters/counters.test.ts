import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  addSample,
  advance,
  type Counters,
  grownSince,
  newCounters,
  rate,
  type Source,
} from '../../../detector/counters/counters.js';
import type { SampleRow } from '../../../protocol/sample.js';

const PORT = { job: 'j', host: 'node-a', rank: -1, gpu: '', nic: 'mlx5_0', link: '', unit: '', cumulative: true };

const sample = (second: number, name: string, value: number, facts: Partial<SampleRow> = {}): SampleRow => ({
  ...{ ...PORT, ...facts, name, value },
  time_ns: BigInt(Math.round(second * 1e9)),
});

/** What a job has heard once time has come to the last sample. */
function heard(...samples: SampleRow[]): { counters: Counters; port: Source } {
  const counters = newCounters();
  for (const each of samples) addSample(counters, each);
  advance(counters, 10n ** 15n);
  return { counters, port: [...counters.sources.values()][0] as Source };
}

const pauses = (...values: number[]): SampleRow[] => values.map((value, i) => sample(10 * i, 'tx_pause', value));

describe('counters', () => {
  it('count what they grew by, never what they stood at', () => {
    assert.equal(grownSince(heard(...pauses(132e6, 132e6, 132e6)).port, 'tx_pause', 0), 0);
    assert.equal(grownSince(heard(...pauses(132e6, 132e6 + 5, 132e6 + 7)).port, 'tx_pause', 0), 7);
  });

  it('count in part what grew in a time that had begun before', () => {
    assert.equal(grownSince(heard(...pauses(0, 100)).port, 'tx_pause', 7.5e3), 25);
  });

  it('go on where they wrap around 32 bits, and count nothing where they begin anew', () => {
    const limit = 2 ** 32;
    assert.equal(grownSince(heard(...pauses(limit - 10, 20, 25)).port, 'tx_pause', 0), 35);
    assert.equal(grownSince(heard(...pauses(5e6, 40, 45)).port, 'tx_pause', 0), 5);
    assert.equal(grownSince(heard(...pauses(2 ** 40, 40, 45)).port, 'tx_pause', 0), 5);
  });

  it('that are read twice or late count once', () => {
    const { counters, port } = heard(...pauses(0, 100, 200));
    for (const again of pauses(0, 100, 200)) addSample(counters, again);
    advance(counters, 10n ** 15n);
    assert.equal(grownSince(port, 'tx_pause', 0), 200);
    assert.equal(counters.counts.late, 3);
  });

  it('go on after the clock of their host was set back, with nothing for the time between', () => {
    const { port } = heard(sample(4000, 'tx_pause', 100), sample(4010, 'tx_pause', 150));
    const counters = newCounters();
    counters.sources.set('node-a|mlx5_0|||-1', port);
    for (const each of [sample(1000, 'tx_pause', 900), sample(1010, 'tx_pause', 907)]) addSample(counters, each);
    advance(counters, 10n ** 15n);
    assert.equal(grownSince(port, 'tx_pause', 0), 57);
  });

  it('of port data are octets: four a count, unless the unit says bytes', () => {
    const data = (unit: string): SampleRow[] => [0, 1000].map((v, i) => sample(10 * i, 'port_xmit_data', v, { unit }));
    assert.equal(rate(heard(...data('')).port, 'tx_bytes'), 400);
    assert.equal(rate(heard(...data('bytes')).port, 'tx_bytes'), 100);
  });

  it('keep the sum of what they grew by, however often they are read', () => {
    const reads = Array.from({ length: 200 }, (_, i) => i * i);
    assert.equal(grownSince(heard(...pauses(...reads)).port, 'tx_pause', 0), 199 * 199);
  });

  it('that nobody asks for are counted', () => {
    assert.deepEqual(heard(sample(1, 'fan_speed_rpm', 3)).counters.counts, {
      taken: 0,
      late: 0,
      unused: 1,
      overflow: 0,
    });
  });
});

describe('samples', () => {
  it('count from their own time on, in the order of time, whenever they come', () => {
    const counters = newCounters();
    for (const each of pauses(0, 100, 300).reverse()) addSample(counters, each);
    advance(counters, 12n * 10n ** 9n);
    const port = [...counters.sources.values()][0] as Source;
    assert.equal(grownSince(port, 'tx_pause', 0), 100);
    advance(counters, 20n * 10n ** 9n);
    assert.equal(grownSince(port, 'tx_pause', 0), 300);
    assert.equal(counters.counts.late, 0);
  });
});

it('samples of a time that never comes are taken in early, and not kept without bound', () => {
  const counters = newCounters();
  for (let i = 0; i <= 200_000; i++) addSample(counters, sample(i, 'tx_pause', i));
  assert.equal(counters.waiting.length, 100_000);
  assert.equal(counters.counts.taken, 100_001);
  assert.equal(grownSince([...counters.sources.values()][0] as Source, 'tx_pause', 0), 100_000);
});

describe('outages of a port', () => {
  const event = (second: number, name: string): SampleRow => sample(second, name, 1, { cumulative: false });

  it('are told by events', () => {
    const { port } = heard(event(3, 'port_down'), event(4, 'port_up'), event(9, 'port_down'));
    assert.deepEqual(
      port.outages.map(({ downMs, upMs }) => [downMs, upMs]),
      [
        [3000, 4000],
        [9000, Number.NaN],
      ],
    );
  });

  it('are told by its state', () => {
    const states = [1, 0, 0, 1].map((value, i) => sample(i, 'carrier', value, { cumulative: false }));
    assert.deepEqual(
      heard(...states).port.outages.map(({ downMs, upMs }) => [downMs, upMs]),
      [[1000, 3000]],
    );
  });

  it('are told by a counter, and not twice where events tell of them too', () => {
    const downs = [5, 7].map((value, i) => sample(10 * i, 'link_downed', value));
    assert.equal(heard(...downs).port.outages.length, 2);
    const { port } = heard(...downs, event(3, 'port_down'), event(4, 'port_up'));
    assert.deepEqual(
      port.outages.map(({ downMs, within }) => [downMs, within]),
      [
        [0, true],
        [3000, false],
      ],
    );
  });
});
