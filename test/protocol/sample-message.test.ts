import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { encodePhases } from '../../protocol/arrow.js';
import { newJobMeta } from '../../protocol/job-meta.js';
import { formatSampleLine, parsePhaseLine } from '../../protocol/jsonl.js';
import { PhaseBatchBuilder } from '../../protocol/phase-batch.js';
import type { SampleRow } from '../../protocol/sample.js';
import { decodeSamples, encodeSamples } from '../../protocol/sample-message.js';

const counter: SampleRow = {
  ...{ time_ns: 1_770_000_000_000_000_101n, job: 'j', host: 'node-a', rank: -1, gpu: '', nic: 'mlx5_0', link: '' },
  ...{ name: 'port_xmit_data', value: 2 ** 52 + 1, unit: 'bytes', cumulative: true },
};
const gauge: SampleRow = {
  ...counter,
  rank: 3,
  nic: '',
  gpu: 'GPU-1',
  name: 'clocks_event_reasons',
  value: 4.5,
  cumulative: false,
};

describe('a message of samples', () => {
  it('holds them exactly', () => {
    assert.deepEqual(decodeSamples(encodeSamples([counter, gauge])), [counter, gauge]);
    assert.deepEqual(decodeSamples(encodeSamples([])), []);
  });

  it('of more than a message may hold is refused', () => {
    const many = new Array<SampleRow>(10_001).fill(counter);
    assert.throws(() => encodeSamples(many), { code: 'too_large', message: /10001 samples exceed 10000/ });
  });

  it('is refused where it is something else', () => {
    const phases = encodePhases(new PhaseBatchBuilder(newJobMeta('j')).take());
    assert.throws(() => decodeSamples(phases), { code: 'bad_input', message: /"phases\/1" where "samples\/1"/ });
    assert.throws(() => decodeSamples(Buffer.from('{}')), { code: 'bad_input' });
  });
});

it('a sample is a line of JSON that reads back as it was', () => {
  for (const sample of [counter, gauge])
    assert.deepEqual(parsePhaseLine(formatSampleLine(sample)), { type: 'sample', sample });
});
