import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FLAG } from '../../protocol/vocabulary.js';
import { mulberry32 } from '../support/trace.js';
import { M0, SegmentFile, T0 } from './segment-file.js';
import { Collecting, folder, metric, needsAddon, ofPhase } from './support.js';

const SECOND = 1_000_000_000n;
/** The GPU's clock when the host's shows M0, and by how much it is too quick. */
const G0 = 1_600_000_000_000_000_000n;
const DRIFT_PPM = 4n;

const gpuAt = (sinceM0: bigint): bigint => G0 + sinceM0 + (sinceM0 * DRIFT_PPM) / 1_000_000n;

/** Samples once a second, some of them wrong by milliseconds. */
function sampled(segment: SegmentFile, seconds: number, realtime: (second: number) => bigint): void {
  const random = mulberry32(1);
  for (let second = 0; second < seconds; second++) {
    const at = BigInt(second) * SECOND;
    const wrong = second % 10 === 3 ? 4_000_000 : 0;
    const error = BigInt(Math.round(500 * (2 * random() - 1)) + wrong);
    segment.clock(gpuAt(at) + error, M0 + at, realtime(second));
  }
}

function gpuSegment(dir: string): { segment: SegmentFile; mlp: number } {
  const segment = new SegmentFile(dir, { attributes: { job: 'j', rank: 0 }, gpu: 'GPU-1' });
  return { segment, mlp: segment.phase('mlp', 'compute') };
}

it('the time without a phase on a GPU is shown by local rank', needsAddon, async () => {
  const dir = folder();
  const { segment, mlp } = gpuSegment(dir);
  const whole = segment.phase('step', 'step');
  segment.clock(gpuAt(0n), M0, T0);
  segment.step({ step: 1 }, M0);
  segment.begin(whole, gpuAt(0n), 1);
  // 10 ms on one lane and 10 on another, of which 5 are the same.
  for (const [lane, from] of [
    [1, 10],
    [2, 15],
  ] as const) {
    segment.begin(mlp, gpuAt(BigInt(from) * 1_000_000n), lane);
    if (lane === 2) segment.end(mlp, gpuAt(20_000_000n), 1);
  }
  segment.end(mlp, gpuAt(25_000_000n), 2);
  segment.end(whole, gpuAt(90_000_000n), 1);
  segment.close();
  const collecting = new Collecting(dir);
  collecting.collector.scan(collecting.nowMs);
  collecting.nowMs += 100;
  collecting.collector.tick(collecting.nowMs);
  collecting.collector.heartbeat(collecting.nowMs);
  const ratio = await metric(collecting, 'picket_bubble_ratio{local_rank="0"}');
  assert.ok(Math.abs(ratio - 0.85) < 1e-3, String(ratio));
  collecting.close();
});

describe('GPU times', needsAddon, () => {
  it('become epoch times by the fitted line, samples that disagree left out', async () => {
    const dir = folder();
    const { segment, mlp } = gpuSegment(dir);
    sampled(segment, 60, (second) => T0 + BigInt(second) * SECOND);
    const at = 59n * SECOND;
    segment.step({ step: 1 }, M0 + at);
    segment.begin(mlp, gpuAt(at), 1);
    segment.end(mlp, gpuAt(at) + 10_000n, 1);
    segment.close();
    const collecting = new Collecting(dir);
    collecting.collector.scan(collecting.nowMs);
    collecting.collector.tick(collecting.nowMs);
    const { clock_error_ns } = collecting.collector.heartbeat(collecting.nowMs);
    collecting.run().close();
    const [row] = ofPhase(collecting.rows, 'mlp');
    assert.ok(row);
    const off = Number(BigInt(row.start_ns) - (T0 + at));
    assert.ok(Math.abs(off) < 300, `${off} ns off`);
    assert.equal(Number(row.dur_ns), 10_000);
    assert.equal(row.flags, 0);
    assert.ok(clock_error_ns !== null && clock_error_ns > 0 && clock_error_ns < 2000, `${clock_error_ns} ns stated`);
    assert.ok(Math.abs(off) <= clock_error_ns);
    assert.equal(await metric(collecting, 'picket_collector_clock_uncertainty_seconds'), clock_error_ns / 1e9);
  });

  it('follow a step of the host’s epoch clock, but not a single wrong reading of it', () => {
    const dir = folder();
    const { segment, mlp } = gpuSegment(dir);
    const jump = 7200n * SECOND;
    sampled(segment, 30, (second) => T0 + BigInt(second) * SECOND + (second >= 28 || second === 5 ? jump : 0n));
    const at = 29n * SECOND;
    segment.step({ step: 1 }, M0 + at);
    segment.begin(mlp, gpuAt(at), 1);
    segment.end(mlp, gpuAt(at) + 5000n, 1);
    segment.close();
    const [row] = ofPhase(new Collecting(dir).run().close().rows, 'mlp');
    assert.ok(row && Math.abs(Number(BigInt(row.start_ns) - (T0 + at + jump))) < 1000);
  });

  it('are marked where their clock may be too far off, and where no sample has come', () => {
    const one = folder();
    const { segment, mlp } = gpuSegment(one);
    segment.clock(gpuAt(0n), M0, T0);
    // A minute after the only sample a drift of 50 ppm, which nothing excludes, is 3 ms.
    const late = 60n * SECOND;
    for (const [step, at] of [0n, late].entries()) {
      segment.step({ step }, M0 + at);
      segment.begin(mlp, gpuAt(at), 1);
      segment.end(mlp, gpuAt(at) + 5000n, 1);
    }
    segment.close();
    const rows = ofPhase(new Collecting(one).run().close().rows, 'mlp');
    assert.deepEqual(
      rows.map(({ flags }) => flags),
      [0, FLAG.clockUncertain],
    );
    const none = folder();
    const unsampled = gpuSegment(none);
    unsampled.segment.step({ step: 0 }, M0);
    unsampled.segment.begin(unsampled.mlp, G0, 1);
    unsampled.segment.end(unsampled.mlp, G0 + 5000n, 1);
    unsampled.segment.close();
    const [guessed] = ofPhase(new Collecting(none).run().close().rows, 'mlp');
    assert.deepEqual([guessed?.flags, Number(guessed?.dur_ns)], [FLAG.clockUncertain, 5000]);
    assert.ok(guessed && Math.abs(Number(BigInt(guessed.start_ns) - T0)) < 2e9, 'stamped with the time of arrival');
  });
});
