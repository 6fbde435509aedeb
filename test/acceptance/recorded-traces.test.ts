import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { before, describe, it } from 'node:test';
import { type Analysis, analyze } from '../../cli/analyze.js';
import { type Baseline, loadBaseline } from '../../detector/baseline/baseline.js';
import { sharedData } from '../support/shared-data.js';

/** Recorded traces with known answers, through `picket analyze`. */

const tp2 = sharedData('h200-tp2');
const training = sharedData('h200-train');
const timeline = sharedData('ndtimeline/stage-imbalance.parquet');
const kineto = sharedData('kineto');

const verdicts = ({ incidents }: Analysis) => incidents.map(({ kind, cause, subject }) => [kind, cause, subject.ranks]);

/** A baseline learnt from the two healthy recordings. */
const learnt = async (): Promise<Baseline> => {
  const folder = mkdtempSync(join(tmpdir(), 'picket-test-'));
  try {
    const file = join(folder, 'baseline.json');
    const scenarios = ['healthy', 'healthy_2'].flatMap((name) => ['--scenario', name]);
    execFileSync(process.execPath, ['bin/picket.js', 'baseline', 'train', tp2.path, ...scenarios, '--out', file]);
    return loadBaseline(readFileSync(file, 'utf8'));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
};

/** What was done to the two GPUs from step 250 on, and what may be said about it. */
const SERVING: { scenario: string; expected?: unknown[][]; neverNamed?: number[] }[] = [
  { scenario: 'healthy', expected: [] },
  { scenario: 'healthy_2', expected: [] },
  { scenario: 'host_straggler', expected: [['straggler', 'host', [0]]], neverNamed: [1] },
  { scenario: 'compute_straggler', expected: [['straggler', 'compute', [1]]], neverNamed: [0] },
  { scenario: 'nvlink_congestion', neverNamed: [1] },
  { scenario: 'gc_pause', neverNamed: [0, 1] },
  { scenario: 'prefill_blocking', expected: [['prefill_blocking', 'workload', []]], neverNamed: [0, 1] },
  { scenario: 'kv_recompute', expected: [['kv_recompute', 'memory', []]], neverNamed: [0, 1] },
  { scenario: 'no_graph', expected: [['no_cuda_graph', 'configuration', [0, 1]]], neverNamed: [0, 1] },
  { scenario: 'hang', expected: [['transient_stall', 'host', [1]]], neverNamed: [0] },
  { scenario: 'no_graph_from_start', neverNamed: [0, 1] },
  { scenario: 'nvlink_slow_path', neverNamed: [0, 1] },
];

describe('tensor parallel decoding on two H200', { skip: tp2.skip }, () => {
  for (const { scenario, expected, neverNamed = [] } of SERVING)
    it(`${scenario}: ${expected ? `${expected.length} incidents` : `never rank ${neverNamed.join(' or ')}`}`, async () => {
      const analysis = await analyze([tp2.path], { scenario });
      if (expected) assert.deepEqual(verdicts(analysis), expected);
      const stragglers = analysis.incidents.filter(({ kind }) => kind === 'straggler');
      for (const rank of neverNamed) assert.ok(!stragglers.some(({ subject }) => subject.ranks.includes(rank)));
      for (const { onset_step, detected_step } of analysis.incidents) {
        assert.ok(onset_step >= 250 && onset_step <= 261, `onset at ${onset_step}`);
        assert.ok(detected_step <= 262, `found at ${detected_step}`);
      }
    });
});

describe('what only an expectation from outside of the run can see', { skip: tp2.skip }, () => {
  let baseline: Baseline;
  before(async () => {
    baseline = await learnt();
  });

  it('transfers through host memory from the first step on', async () => {
    const { incidents } = await analyze([tp2.path], { scenario: 'nvlink_slow_path' }, undefined, baseline);
    assert.deepEqual(
      incidents.map(({ kind, subject, onset_step }) => [kind, subject.link, subject.ranks, onset_step]),
      [['nvlink_stall', '0-1', [], 0]],
    );
    assert.ok((incidents[0]?.detected_step ?? 99) <= 12);
  });

  it('decoding without CUDA graphs from the first step on', async () => {
    const { incidents } = await analyze([tp2.path], { scenario: 'no_graph_from_start' }, undefined, baseline);
    assert.deepEqual(
      incidents.map(({ kind, subject }) => [kind, subject.ranks]),
      [['no_cuda_graph', [0, 1]]],
    );
    assert.ok((incidents[0]?.detected_step ?? 99) <= 12);
  });

  for (const { scenario, expected } of SERVING.filter((each) => each.expected))
    it(`${scenario}: nothing more than without it`, async () => {
      assert.deepEqual(verdicts(await analyze([tp2.path], { scenario }, undefined, baseline)), expected);
    });

  it('a congested link is told as one, beside the rank whose memory is hammered', async () => {
    const { incidents } = await analyze([tp2.path], { scenario: 'nvlink_congestion' }, undefined, baseline);
    for (const { kind, subject } of incidents)
      assert.ok(kind === 'nvlink_stall' ? subject.link === '0-1' : subject.ranks.join() === '0', kind);
  });
});

const TRAINING: Record<string, unknown[][]> = {
  train_healthy: [],
  train_slow_10: [['straggler', 'compute', [1]]],
  train_slow_20: [['straggler', 'compute', [1]]],
  train_dataload: [['straggler', 'data', [1]]],
  train_tokens_vary_by_rank: [['load_imbalance', 'workload', []]],
  train_tokens_vary_together: [],
  train_tokens_vary_slow_30: [
    ['load_imbalance', 'workload', []],
    ['straggler', 'compute', [1]],
  ],
  train_gc: [],
  pipeline_healthy: [],
  pipeline_heavy_last: [['stage_imbalance', 'configuration', [1]]],
};

describe('training on two H200', { skip: training.skip }, () => {
  for (const [scenario, expected] of Object.entries(TRAINING))
    it(scenario, async () => {
      const analysis = await analyze([training.path], { scenario });
      assert.deepEqual(verdicts(analysis), expected);
      for (const { kind, onset_step, detected_step } of analysis.incidents) {
        if (kind === 'straggler') assert.equal(onset_step, 100);
        else assert.ok(onset_step < 20, `${kind} from the beginning`);
        assert.ok(detected_step - onset_step <= 12, `found at ${detected_step}`);
      }
    });
});

it('a production job with a too heavy last pipeline stage', { skip: timeline.skip }, async () => {
  const { incidents } = await analyze([timeline.path], {});
  assert.equal(incidents.length, 1);
  const [incident] = incidents;
  assert.deepEqual([incident?.kind, incident?.subject.stage], ['stage_imbalance', 3]);
  assert.notEqual(incident?.severity, 'info');
  assert.ok(Math.abs((incident?.evidence.ratio_to_other_stages as number) - 1.6) < 0.05);
});

it('profiler traces of healthy jobs', { skip: kineto.skip }, async () => {
  const { incidents, rows, unclaimed } = await analyze([kineto.path], {});
  assert.deepEqual([incidents, unclaimed], [[], []]);
  assert.ok(rows > 0);
});

it('the bundled excerpt holds one straggler, and a healthy run beside it none', async () => {
  const analysis = await analyze([resolve('fixtures/h200-tp2-excerpt')], {});
  assert.deepEqual(
    analysis.incidents.map(({ kind, cause, subject, onset_step }) => [
      kind,
      cause,
      subject.job,
      subject.ranks,
      onset_step,
    ]),
    [['straggler', 'host', 'host_straggler', [0], 250]],
  );
});
