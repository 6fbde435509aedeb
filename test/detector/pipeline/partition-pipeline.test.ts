import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { serialize } from 'node:v8';
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

  it('goes on from what changed since it was stored last, however often that is', () => {
    const first = new PartitionPipeline();
    const stored = new Map<string, Uint8Array | null>();
    let partition = new Uint8Array();
    const sizes: number[] = [];
    for (let i = 0; i < messages.length; i++) {
      run(first, i, 0, i + 1);
      const snapshot = first.snapshot();
      first.saved();
      partition = new Uint8Array(snapshot.partition);
      sizes.push(snapshot.jobs.size);
      for (const [key, state] of snapshot.jobs) stored.set(key, state);
    }
    // Of each of the two jobs its run and its counters; a message is of one of them.
    assert.deepEqual([stored.size, Math.max(...sizes)], [4, 2]);
    const second = new PartitionPipeline();
    assert.ok(second.restore({ partition, jobs: stored }));
    assert.equal(second.snapshot().jobs.size, 0);
    assert.deepEqual(second.openIncidents(), full.openIncidents());
    assert.deepEqual(second.counts(), full.counts());
  });

  it('forgets a job with all that is open of it, and begins anew when it comes back', () => {
    const pipeline = new PartitionPipeline();
    run(pipeline, 0, 0);
    pipeline.saved();
    const [key] = [...pipeline.jobs()].find(([, { job }]) => job === 'sim-straggler') as [string, object];
    const ended = pipeline.forget([key]);
    assert.deepEqual(
      ended.map(({ after }) => [after.id, after.status]),
      expected.map(({ id }) => [id, 'resolved']),
    );
    assert.match(ended[0]?.after.timeline.at(-1)?.note ?? '', /the job is forgotten: no data since step 59/);
    assert.deepEqual([...pipeline.snapshot().jobs.values()], [null, null]);
    assert.equal(pipeline.jobs().size, 1);
    assert.deepEqual(pipeline.forget([key]), []);
    assert.deepEqual(run(pipeline, 0, 0, 20), expected);
  });

  for (const [what, damaged] of [
    ['of another version', { version: 1 }],
    ['that is damaged', undefined],
  ] as const)
    it(`refuses a snapshot ${what}, and has all of it deleted`, () => {
      const other = new PartitionPipeline();
      run(other, 0, 0, 3);
      const { jobs } = other.snapshot();
      const partition = damaged ? serialize(damaged) : Uint8Array.of(0, 255, 0);
      const pipeline = new PartitionPipeline();
      assert.equal(pipeline.restore({ partition, jobs }), false);
      assert.deepEqual(pipeline.snapshot().jobs, new Map([...jobs.keys()].map((key) => [key, null])));
    });
});
