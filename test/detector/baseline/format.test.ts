import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { loadBaseline } from '../../../detector/baseline/baseline.js';
import {
  BASELINE_VERSION,
  type BaselineFile,
  formatBaseline,
  parseBaseline,
} from '../../../detector/baseline/format.js';
import { PicketError } from '../../../protocol/errors.js';
import { AT } from './support.js';

const calibration = { rows: 20, run_spread: 0.01, rank_spread: 0.01, coverage: null, residuals: [0, 0.1], tail: 0.01 };
const role = {
  stage: -1,
  rows: 20,
  features: [{ name: 'tokens' as const, mean: 0, scale: 1 }],
  targets: [{ name: 'compute', center: 14, scale: 1 }],
  network: { layers: [{ weights: [0], biases: [0] }] },
  buckets: {
    'unknown/train': {
      ranges: [[0, 1] as [number, number]],
      targets: { compute: { ...calibration, typical_ns: 1e6 } },
    },
  },
};
const file: BaselineFile = {
  format: 'picket-baseline',
  version: BASELINE_VERSION,
  trained: { at: AT, backend: 'cpu', seed: 1, runs: [] },
  populations: [
    {
      key: { engine: '', engine_version: '', model: '', device: '', config_hash: '' },
      runs: 1,
      roles: [role],
      collectives: [],
      graphs: [],
    },
  ],
};

const refused = (text: string, code: string, message: RegExp): void =>
  assert.throws(
    () => loadBaseline(text, 'b.json'),
    (error: unknown) => {
      assert.ok(error instanceof PicketError);
      assert.equal(error.code, code);
      assert.match(error.message, /^b\.json: /);
      assert.match(error.message, message);
      return true;
    },
  );

describe('the baseline file', () => {
  it('is read back as it was written', () => {
    assert.deepEqual(parseBaseline(formatBaseline(file)), file);
  });

  it('of another version is refused, and the remedy named', () => {
    const message = /field "version": version 2 is not 1; train it again/;
    refused(JSON.stringify({ ...file, version: 2 }), 'unsupported_version', message);
  });

  it('that is none is refused', () => {
    refused('{', 'bad_input', /is not JSON/);
    for (const text of ['null', '[]', '{"format":"other"}']) refused(text, 'bad_input', /is not a Picket baseline/);
  });

  it('that is damaged is refused, naming the field', () => {
    const damaged = (changes: object): string =>
      JSON.stringify({ ...file, populations: [{ ...file.populations[0], roles: [{ ...role, ...changes }] }] });
    const layers = (weights: number[], biases: number[]) => ({ network: { layers: [{ weights, biases }] } });
    refused(damaged({ rows: -1 }), 'bad_input', /field "populations\.0\.roles\.0\.rows"/);
    refused(damaged(layers([0, 0], [0])), 'bad_input', /field "[^"]*network": has a layer that does not take 1 inputs/);
    refused(damaged(layers([0, 0], [0, 0])), 'bad_input', /gives 2 outputs for 1 targets/);
    refused(damaged(layers([0], [null as unknown as number])), 'bad_input', /biases/);
    const bucket = { ranges: [], targets: {} };
    refused(damaged({ buckets: { any: bucket } }), 'bad_input', /without the ranges of its 1 features/);
    refused(JSON.stringify({ ...file, more: 1 }), 'bad_input', /more/);
  });
});
