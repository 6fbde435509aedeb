import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { PartitionPipeline } from '../../../detector/pipeline/partition-pipeline.js';
import type { Incident } from '../../../protocol/incident.js';
import type { PhaseBatch } from '../../../protocol/phase-batch.js';
import { type SimulatedMessage, simulate, simulateStream } from '../../../simulator/simulate.js';

/** Two jobs in one partition, one with a straggler. */
const messages: PhaseBatch[] = [
  ...simulate({ scenario: 'straggler', ranks: 16, steps: 60, seed: 5, stepsPerBatch: 3 }),
  ...simulate({ scenario: 'healthy', ranks: 4, steps: 60, seed: 6, stepsPerBatch: 7 }),
];

/** Incidents as they opened, and how the pipeline ended. */
function run(from: PartitionPipeline, start: number, next: number, end = messages.length): Incident[] {
  const opened: Incident[] = [];
  for (let i = start; i < end; i++)
    for (const { before, after } of from.add(messages[i] as PhaseBatch, {
      place: '',
      offset: BigInt(i),
      again: i < next,
    }))
      if (!before) opened.push(after);
  return opened;
}

const full = new PartitionPipeline();
const expected = run(full, 0, 0);

describe('the pipeline of a partition', () => {
  it('finds the straggler of its one sick job', () => {
    assert.deepEqual(
      expected.map(({ kind, subject }) => [kind, subject.job]),
      [['straggler', 'sim-straggler']],
    );
  });

  it('goes on from a snapshot and the oldest offset needed as if nothing had happened', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: messages.length }), (killedAt) => {
        const first = new PartitionPipeline();
        const before = run(first, 0, 0, killedAt);
        const restartAt = Number(first.oldestNeeded(BigInt(killedAt)));
        const second = new PartitionPipeline();
        assert.ok(second.restore(first.snapshot()));
        const after = run(second, restartAt, killedAt);
        assert.deepEqual([...before, ...after], expected);
        assert.deepEqual(second.openIncidents(), full.openIncidents());
        assert.deepEqual(second.counts(), full.counts());
      }),
      { numRuns: 25 },
    );
  });

  it('gives the same when messages come twice, or two of one rank are swapped', () => {
    const again = new PartitionPipeline();
    const opened: Incident[] = [];
    const disturbed = messages.flatMap((batch, i) => {
      if (i % 10 === 3) return [batch, batch];
      return [batch];
    });
    for (const [i, batch] of disturbed.entries())
      for (const { before, after } of again.add(batch, { place: '', offset: BigInt(i), again: false }))
        if (!before && after.kind !== 'data_quality') opened.push(after);
    assert.deepEqual(opened, expected);
  });

  it('goes on from a snapshot with what counters had said, and takes no sample twice', () => {
    const options = { scenario: 'rnic-flap', ranks: 8, steps: 200, seed: 1, gpusPerHost: 2 };
    const stream = [...simulateStream(options)];
    const play = (into: PartitionPipeline, start: number, next: number, end = stream.length): Incident[] => {
      const opened: Incident[] = [];
      for (let i = start; i < end; i++) {
        const message = stream[i] as SimulatedMessage;
        const offset = BigInt(i);
        if (message.type === 'samples') into.addSamples(message.samples, offset);
        else
          for (const { before, after } of into.add(message.batch, { place: '', offset, again: i < next }))
            if (!before) opened.push(after);
      }
      return opened;
    };
    const whole = new PartitionPipeline();
    const opened = play(whole, 0, 0);
    assert.deepEqual(
      opened.map(({ kind, subject }) => [kind, subject.nic]),
      [['rnic_flap', 'mlx5_0']],
    );
    for (let killedAt = 0; killedAt < stream.length; killedAt += 37) {
      const first = new PartitionPipeline();
      const before = play(first, 0, 0, killedAt);
      const second = new PartitionPipeline();
      assert.ok(second.restore(first.snapshot()));
      const after = play(second, Number(first.oldestNeeded(BigInt(killedAt))), killedAt);
      assert.deepEqual([...before, ...after], opened);
      assert.deepEqual(second.counts(), whole.counts());
    }
  });

  it('refuses a snapshot of another version', () => {
    const other = new PartitionPipeline();
    const bytes = other.snapshot();
    const text = Buffer.from(bytes);
    const at = text.indexOf('version') + 'version'.length + 1;
    text[at] = (text[at] as number) + 2;
    assert.equal(new PartitionPipeline().restore(text), false);
  });
});
