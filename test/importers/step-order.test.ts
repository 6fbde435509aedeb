import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { StepOrder } from '../../importers/step-order.js';
import { newJobMeta } from '../../protocol/job-meta.js';
import { MAX_MESSAGE_ROWS } from '../../protocol/limits.js';
import { batchOf, rowsOf } from '../protocol/rows.js';

const order = (batches: Parameters<StepOrder['push']>[0][], windowRows?: number) => {
  const steps = new StepOrder(windowRows);
  return [...batches.flatMap((batch) => steps.push(batch)), ...steps.flush()];
};

test('rows come by step, and within a step as they were given', () => {
  const rows = fc.array(fc.record({ rank: fc.nat(3), step: fc.nat(5), host: fc.constantFrom('a', 'b') }));
  fc.assert(
    fc.property(fc.array(rows), (pieces) => {
      const numbered = pieces.flat().map((row, i) => ({ ...row, seq: BigInt(i) }));
      let at = 0;
      const batches = pieces.flatMap((piece) => {
        const own = numbered.slice(at, (at += piece.length));
        return ['a', 'b'].map((host) =>
          batchOf(
            own.filter((row) => row.host === host).map(({ rank, step, seq }) => ({ rank, step, seq })),
            newJobMeta('job', { host }),
          ),
        );
      });
      for (const host of ['a', 'b']) {
        const given = numbered
          .filter((row) => row.host === host)
          .sort((a, b) => a.step - b.step || Number(a.seq - b.seq));
        const sent = order(batches).filter(({ meta }) => meta.host === host);
        assert.deepEqual(
          sent.flatMap((batch) => rowsOf(batch).map(({ seq }) => seq)),
          given.map(({ seq }) => seq),
        );
      }
    }),
  );
});

test('runs of a job are not mixed, and come as they first appeared', () => {
  const run = (name: string, step: number) => batchOf([{ step }], newJobMeta('job', { run: name }));
  const sent = order([run('0', 499), run('1', 375), run('0', 500)]);
  assert.deepEqual(
    sent.map((batch) => [batch.meta.run, rowsOf(batch).map(({ step }) => step)]),
    [
      ['0', [499n, 500n]],
      ['1', [375n]],
    ],
  );
});

test('a full message of one host sends what the others have', () => {
  const host = (name: string, rank: number, perStep: number) =>
    batchOf(
      Array.from({ length: 2 * MAX_MESSAGE_ROWS }, (_, i) => ({ rank, step: Math.floor(i / perStep) })),
      newJobMeta('job', { host: name }),
    );
  const reached: Record<string, number> = { a: 0, b: 0 };
  for (const batch of order([host('a', 0, 100), host('b', 1, 10)])) {
    assert.ok(batch.length <= MAX_MESSAGE_ROWS);
    reached[batch.meta.host] = batch.columns.step.number(batch.length - 1);
    const [a = 0, b = 0] = Object.values(reached);
    if (a < 199) assert.ok(b <= a + MAX_MESSAGE_ROWS / 100);
  }
  assert.deepEqual(reached, { a: 199, b: 1999 });
});

test('beyond the window rows are sent in order as far as it reaches', () => {
  const rows = Array.from({ length: 100 }, (_, i) => ({ step: i ^ 1 }));
  const sent = order(
    rows.map((row) => batchOf([row])),
    10,
  ).flatMap((batch) => rowsOf(batch).map(({ step }) => Number(step)));
  assert.deepEqual(
    sent,
    [...sent].sort((a, b) => a - b),
  );
});

test('a rank that first comes when the others have passed is refused', () => {
  const rank = (n: number) => batchOf(Array.from({ length: 100 }, (_, step) => ({ rank: n, step })));
  assert.throws(() => order([rank(0), rank(1)], 50), {
    code: 'bad_input',
    message: /rows of rank 1 of job "job" begin after step \d+ of other ranks; sort the file by step/,
  });
  assert.equal(order([rank(0), rank(1)], 500).length, 1);
});
