import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { DetectorProcess } from '../support/detector-process.js';
import { mulberry32 } from '../support/trace.js';
import { CollectorProcess } from './collector-process.js';
import { M0, SegmentFile } from './segment-file.js';
import { folder, needsAddon } from './support.js';

const STEPS = 300;
const ONSET = 150;
const LAYERS = 8;
const RING = 16_384;

/** Two ranks of tensor parallel 2; from a step on rank 1's mlp takes a quarter longer, for which rank 0 waits. */
function writeEngines(dir: string): void {
  const random = mulberry32(3);
  const jitter = (ns: number): number => Math.round(ns * (1 + 0.01 * (random() - 0.5)));
  const groups = { tp: [0, 1] };
  const ranks = [0, 1].map((rank) => {
    const segment = new SegmentFile(dir, {
      attributes: { job: 'llm', run: 'a', rank, tp: rank, groups },
      fences: RING,
      hosts: 1024,
      pid: 100 + rank,
    });
    const layers = Array.from({ length: LAYERS }, (_, layer) => ({
      attention: segment.phase('attention', 'compute', { layer }),
      mlp: segment.phase('mlp', 'compute', { layer }),
      reduce: segment.phase('all_reduce', 'comm', { layer, op: 'all_reduce', group: 'tp', bytes: 65_536 }),
    }));
    return { segment, layers };
  });
  let base = 0;
  for (let step = 0; step < STEPS; step++) {
    const at = [base, base];
    ranks.forEach(({ segment }, rank) => {
      segment.step({ step, batch: 8, decodeTokens: 8, prefillTokens: 0, graph: 8 }, M0 + BigInt(at[rank] as number));
    });
    for (let layer = 0; layer < LAYERS; layer++) {
      ranks.forEach(({ segment, layers }, rank) => {
        const { attention, mlp } = layers[layer] as (typeof layers)[number];
        for (const [phase, ns] of [
          [attention, 40_000],
          [mlp, rank === 1 && step >= ONSET ? 75_000 : 60_000],
        ] as const) {
          segment.begin(phase, M0 + BigInt(at[rank] as number));
          at[rank] = (at[rank] as number) + jitter(ns);
          segment.end(phase, M0 + BigInt(at[rank] as number));
        }
      });
      const done = Math.max(...at) + jitter(11_000);
      ranks.forEach(({ segment, layers }, rank) => {
        const { reduce } = layers[layer] as (typeof layers)[number];
        segment.begin(reduce, M0 + BigInt(at[rank] as number));
        at[rank] = done;
        segment.end(reduce, M0 + BigInt(done));
      });
    }
    base = Math.max(...at) + jitter(20_000);
  }
  for (const { segment } of ranks) segment.close();
}

describe('segments of two ranks, through collector and embedded log, to the detector', needsAddon, () => {
  it('name the rank that was slowed', async () => {
    const dir = folder();
    const segments = join(dir, 'segments');
    mkdirSync(segments);
    writeEngines(segments);
    const detector = new DetectorProcess({ kind: 'embedded', dir: '', fsync: 'never' }, []);
    const sink = { kind: 'embedded', dir: detector.logDir, fsync: 'never' };
    const collector = new CollectorProcess(dir, { segments_dir: segments, sink, partitions: 2 });
    after(() => Promise.all([detector.close(), collector.stop('SIGKILL')]));
    await detector.start();
    assert.ok(await collector.start(), collector.output.join('\n'));
    const found = await detector.incidentsUntil((incidents) => incidents.some(({ kind }) => kind === 'straggler'));
    assert.deepEqual(
      found.map(({ kind, subject, cause }) => [kind, subject.job, subject.run, subject.ranks, cause]),
      [['straggler', 'llm', 'a', [1], 'compute']],
    );
  });
});
