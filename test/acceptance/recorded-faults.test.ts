import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { analyze } from '../../cli/analyze.js';

/** Real engines with fences and real faults, recorded before any detector had seen them: fixtures/h200-faults. */

const SERVE_ONSET = 300;
const TRAIN_ONSET = 80;
/** Within so many steps of the onset. */
const SOON = 12;

const ANSWERS: Record<string, unknown[][]> = {
  serve_healthy: [],
  serve_compute: [['straggler', 'compute', [1]]],
  serve_host: [['straggler', 'host', [0]]],
  serve_eager: [['no_cuda_graph', 'configuration', [0, 1]]],
  train_healthy: [],
  train_compute: [['straggler', 'compute', [1]]],
  train_host: [['straggler', 'host', [0]]],
  train_loader: [['straggler', 'data', [1]]],
  train_pause: [
    ['transient_stall', 'unknown', [1]],
    ['comm_hang', 'unknown', [1]],
  ],
};

describe('faults recorded through hook, fences and collector on two H200', () => {
  for (const [scenario, expected] of Object.entries(ANSWERS))
    it(`${scenario}: ${expected.map(([kind]) => kind).join(', ') || 'no incident'}`, async () => {
      const { incidents } = await analyze([`fixtures/h200-faults/${scenario}.jsonl.gz`], {});
      assert.deepEqual(
        incidents.map(({ kind, cause, subject }) => [kind, cause, subject.ranks]),
        expected,
      );
      const onset = scenario.startsWith('serve') ? SERVE_ONSET : TRAIN_ONSET;
      for (const { onset_step, detected_step } of incidents) {
        assert.equal(onset_step, onset);
        assert.ok(detected_step <= onset + SOON, `found at ${detected_step}`);
      }
    });
});
