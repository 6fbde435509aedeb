import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Assembler, LATENESS_NS, MAX_WAITING_STEPS } from '../../../detector/pipeline/assembler.js';
import { newTopology } from '../../../detector/pipeline/topology.js';
import { type JobMeta, newJobMeta } from '../../../protocol/job-meta.js';
import { PhaseBatchBuilder, type PhaseRow } from '../../../protocol/phase-batch.js';
import { T0 } from '../../support/trace.js';

const row = (rank: number, step: number, facts: Partial<PhaseRow> = {}): PhaseRow => ({
  rank,
  step,
  phase: 'forward',
  start_ns: T0 + BigInt(step) * 1_000_000n,
  dur_ns: 900_000,
  ...facts,
});

class Feed {
  readonly assembler: Assembler;
  readonly #meta: JobMeta;
  #offset = 0n;

  constructor(meta: JobMeta = newJobMeta('job')) {
    this.#meta = meta;
    this.assembler = new Assembler(newTopology(meta));
  }

  add(...rows: PhaseRow[]): number[] {
    const builder = new PhaseBatchBuilder(this.#meta);
    for (const one of rows) builder.push(one);
    this.assembler.add(builder.take(), null, false, this.#offset++);
    return [...this.assembler.close()].map(({ rows: closed }) => closed.step);
  }

  flush(): number[] {
    return [...this.assembler.closeAll()].map(({ rows }) => rows.step);
  }

  get counts() {
    return this.assembler.state.counts;
  }
}

describe('assembly of steps', () => {
  it('closes a step once every live rank has sent a later one', () => {
    const feed = new Feed();
    assert.deepEqual(feed.add(row(0, 1), row(1, 1)), []);
    assert.deepEqual(feed.add(row(0, 2), row(0, 3)), []);
    assert.deepEqual(feed.add(row(1, 3)), [1, 2]);
    assert.equal(feed.counts.partialSteps, 1);
  });

  it('drops a duplicate by identity and lets the later row win', () => {
    const feed = new Feed();
    feed.add(row(0, 1, { dur_ns: 1 }), row(0, 1, { dur_ns: 2 }), row(0, 1, { layer: 3 }));
    const [closed] = [...feed.assembler.closeAll()];
    const durations: number[] = [];
    closed?.rows.forEach((source, i) => {
      durations.push(source.batch.columns.dur_ns.number(i));
    });
    assert.deepEqual(durations, [2, 900_000]);
    assert.equal(feed.counts.duplicates, 1);
  });

  it('keeps the longest of open rows', () => {
    const feed = new Feed();
    feed.add(
      row(0, 1, { open: true, dur_ns: 5 }),
      row(0, 1, { open: true, dur_ns: 9 }),
      row(0, 1, { open: true, dur_ns: 7 }),
    );
    const [closed] = [...feed.assembler.closeAll()];
    const durations: number[] = [];
    closed?.rows.forEach((source, i) => {
      durations.push(source.batch.columns.dur_ns.number(i));
    });
    assert.deepEqual(durations, [9]);
  });

  it('counts rows of a closed step as late and does not judge it again', () => {
    const feed = new Feed();
    feed.add(row(0, 1), row(0, 2));
    assert.deepEqual(feed.add(row(0, 1)), []);
    assert.equal(feed.counts.late, 1);
    assert.deepEqual(feed.flush(), [2]);
  });

  it('waits for ranks that a communicator names before they have sent anything', () => {
    const feed = new Feed(newJobMeta('job', { groups: { dp: [0, 1] } }));
    assert.deepEqual(feed.add(row(0, 1), row(0, 2)), []);
    assert.deepEqual(feed.add(row(1, 1), row(1, 2), row(1, 3)), [1]);
    assert.equal(feed.counts.late, 0);
  });

  it('waits for a rank that is behind, but not for ever for one that has died', () => {
    const feed = new Feed();
    const apart = LATENESS_NS / 10;
    const at = (step: number) => ({ start_ns: T0 + BigInt(step * apart) });
    feed.add(row(0, 0, at(0)), row(1, 0, at(0)), row(2, 0, at(0)));
    let closed: number[] = [];
    for (let step = 1; step <= 11; step++)
      closed = closed.concat(feed.add(row(0, step, at(step)), row(1, step, at(step))));
    assert.deepEqual(closed, [0], 'rank 2 may still send step 1');
    closed = feed.add(row(0, 12, at(12)), row(1, 12, at(12)));
    assert.deepEqual(closed, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], 'from then on the dead rank is not waited for');
    feed.add(row(2, 12, at(12)));
    assert.deepEqual(feed.add(row(0, 13, at(13)), row(1, 13, at(13))), [], 'one that sends again is');
  });

  it('does not give up a rank because the clock of another is skewed', () => {
    const feed = new Feed();
    const skewed = (step: number) => ({ start_ns: T0 + BigInt(step) * BigInt(2 * LATENESS_NS) });
    feed.add(row(0, 0), row(1, 0), row(2, 0));
    for (let step = 1; step < 10; step++)
      assert.deepEqual(feed.add(row(0, step, skewed(step)), row(1, step)).slice(1), []);
    assert.equal(feed.counts.partialSteps, 0);
  });

  it('holds no more than so many steps', () => {
    const feed = new Feed();
    feed.add(row(0, 0), row(1, 0));
    for (let step = 1; step <= MAX_WAITING_STEPS; step++) assert.deepEqual(feed.add(row(0, step)).slice(1), []);
    assert.ok(feed.add(row(0, MAX_WAITING_STEPS + 1)).length > 0);
  });

  it('is neither stalled nor skipped by a record from the future', () => {
    const feed = new Feed();
    feed.add(row(0, 1), row(1, 1), row(0, 1_000_000_000));
    assert.deepEqual(feed.add(row(0, 2)), [], 'rank 0 has not proved that it is past step 1 by that record');
    assert.deepEqual(feed.add(row(1, 2)), [1]);
    assert.deepEqual(feed.add(row(0, 3), row(1, 3)), [2]);
    assert.deepEqual(feed.flush(), [3]);
    assert.equal(feed.counts.farAhead, 1);
  });

  it('follows a job that really jumps ahead', () => {
    const feed = new Feed();
    feed.add(row(0, 1), row(1, 1));
    feed.add(row(0, 50_000));
    assert.deepEqual(feed.add(row(1, 50_000)), []);
    assert.deepEqual(feed.add(row(0, 50_001), row(1, 50_001)), [1, 50_000]);
  });

  it('gives the same steps with the same rows in whatever order ranks and messages come', () => {
    const ranks = 3;
    const steps = 12;
    const interleaving = fc.array(fc.nat({ max: ranks - 1 }), {
      minLength: 3 * ranks * steps,
      maxLength: 3 * ranks * steps,
    });
    fc.assert(
      fc.property(interleaving, fc.integer({ min: 1, max: 7 }), (turns, perMessage) => {
        const feed = new Feed();
        const next = new Array<number>(ranks).fill(0);
        const rows = turns.flatMap((rank) => {
          const step = next[rank] as number;
          if (step >= steps) return [];
          next[rank] = step + 1;
          return [row(rank, step)];
        });
        const closed: number[] = [];
        for (let i = 0; i < rows.length; i += perMessage) closed.push(...feed.add(...rows.slice(i, i + perMessage)));
        closed.push(...feed.flush());
        const sent = Math.max(...next);
        assert.deepEqual(
          closed,
          Array.from({ length: sent }, (_, step) => step),
        );
        assert.equal(feed.counts.rows, rows.length);
        assert.equal(feed.counts.duplicates, 0);
      }),
    );
  });
});
