import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  Dictionary,
  Int32,
  Int64,
  makeData,
  makeVector,
  Table,
  tableFromIPC,
  Utf8,
  vectorFromArray,
} from 'apache-arrow';
import fc from 'fast-check';
import { decodePhases, encodePhases } from '../../protocol/arrow.js';
import { COLUMN_NAMES, columnSpec } from '../../protocol/columns.js';
import { newJobMeta } from '../../protocol/job-meta.js';
import { at, foreign, streamOf } from './arrow-messages.js';
import { batchOf, possibleRow, rowsOf } from './rows.js';

/** The rows as Arrow's own reader sees them. */
function rowsByArrow(bytes: Uint8Array) {
  const table = tableFromIPC(bytes);
  const columns = COLUMN_NAMES.map((name) => [name, table.getChild(name)] as const);
  return Array.from({ length: table.numRows }, (_, i) =>
    Object.fromEntries(
      columns.map(([name, column]) => {
        const { type, absent } = columnSpec(name);
        const value = column?.get(i) ?? absent;
        return [name, type === 'name' ? value : type === 'int64' ? BigInt(value) : Number(value)];
      }),
    ),
  );
}

const message = fc.record({
  job: fc.constantFrom('a', 'b', 'a job of many hosts'),
  host: fc.constantFrom('', 'node-1'),
  rows: fc.array(possibleRow, { maxLength: 20 }),
  /** The rows of an earlier message under these names: the dictionaries of both are the same or nearly so. */
  phases: fc.array(fc.constantFrom('forward', 'backward', ''), { minLength: 1, maxLength: 3 }),
  offset: fc.nat({ max: 9 }),
});

test('messages of several jobs in any order read as with Arrow’s own reader', () => {
  fc.assert(
    fc.property(fc.array(message, { maxLength: 8 }), (messages) => {
      for (const { job, host, rows, phases, offset } of messages) {
        const named = rows.map((row, i) => ({ ...row, phase: phases[i % phases.length] as string }));
        const meta = newJobMeta(job, { host });
        const bytes = at(offset, encodePhases(batchOf(named, meta)));
        const batch = decodePhases(bytes);
        assert.deepEqual(batch.meta, meta);
        assert.deepEqual(rowsOf(batch), rowsByArrow(bytes));
        for (const name of COLUMN_NAMES) {
          const column = batch.columns[name];
          assert.equal('indices' in column ? column.indices.length : column.length, batch.length, name);
        }
      }
    }),
  );
});

test('what messages have in common is read once, and nobody can write to it', () => {
  const meta = newJobMeta('job', { groups: { tp0: [0, 1] } });
  const [one, other] = [1n, 2n].map((start_ns) => decodePhases(encodePhases(batchOf([{ start_ns }], meta))));
  assert.equal(one?.meta, other?.meta);
  assert.equal(one?.columns.phase.values, other?.columns.phase.values);
  assert.throws(() => one?.meta.groups.tp0?.push(2), TypeError);
});

test('columns are views of the message where its place in memory allows it', () => {
  const bytes = encodePhases(batchOf([{ rank: 7 }]));
  for (const [offset, isView] of [
    [0, true],
    [8, true],
    [1, false],
    [4, false],
  ] as const) {
    const moved = at(offset, bytes);
    const { rank, start_ns } = decodePhases(moved).columns;
    assert.equal(rank.buffer === moved.buffer, isView);
    assert.equal(start_ns.words.buffer === moved.buffer, isView);
  }
});

const values = vectorFromArray(['forward'], new Utf8()).concat(vectorFromArray(['backward', 'step'], new Utf8()));
/** A column of names whose dictionary has two parts, which travel as a dictionary and a delta to it. */
const inTwoParts = (index: number) =>
  makeVector(
    makeData({
      type: new Dictionary(new Utf8(), new Int32(), 77),
      data: Int32Array.of(index),
      dictionary: values,
    }),
  );

test('a dictionary may come in parts', () => {
  for (const [index, phase] of ['forward', 'backward', 'step'].entries())
    assert.equal(rowsOf(decodePhases(foreign({ phase: inTwoParts(index) })))[0]?.phase, phase);
});

test('an index outside its dictionary is refused', () => {
  for (const index of [3, -1])
    assert.throws(() => decodePhases(foreign({ phase: inTwoParts(index) })), {
      code: 'bad_input',
      message: /"phase": a row has name \d+ of 3/,
    });
});

test('a stream without a record batch has no rows', () => {
  const { schema } = tableFromIPC(foreign({}));
  assert.equal(decodePhases(streamOf(new Table(schema, []))).length, 0);
});

test('a second record batch is refused rather than lost', () => {
  const { schema, batches } = tableFromIPC(foreign({}));
  assert.throws(() => decodePhases(streamOf(new Table(schema, [...batches, ...batches]))), {
    code: 'bad_input',
    message: /more than one record batch/,
  });
});

test('a message may be overwritten once its batch is done with', () => {
  const table = new Table({
    rank: vectorFromArray([0, 1], new Int32()),
    step: vectorFromArray([0n, 0n], new Int64()),
    phase: vectorFromArray(['forward', 'backward'], new Utf8()),
    // Beside nulls, names are looked up one by one in the dictionary itself.
    op: vectorFromArray([null, 'an op of its own'], new Dictionary(new Utf8(), new Int32())),
    start_ns: vectorFromArray([1n, 1n], new Int64()),
    dur_ns: vectorFromArray([1n, 1n], new Int64()),
  });
  const bytes = streamOf(table);
  for (const received of [bytes.slice(), bytes.slice()]) {
    assert.equal(rowsOf(decodePhases(received))[1]?.op, 'an op of its own');
    received.fill(0);
  }
});
