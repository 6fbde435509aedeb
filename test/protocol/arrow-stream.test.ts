import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tableFromIPC, tableToIPC } from 'apache-arrow';
import { Buffer as BufferStruct } from 'apache-arrow/fb/buffer';
import { RecordBatch } from 'apache-arrow/fb/record-batch';
import fc from 'fast-check';
import { decodePhases, encodePhases } from '../../protocol/arrow.js';
import { splitStream } from '../../protocol/arrow-stream.js';
import { COLUMN_NAMES, type ColumnName } from '../../protocol/columns.js';
import { PicketError } from '../../protocol/errors.js';
import type { PhaseBatch, PhaseColumns } from '../../protocol/phase-batch.js';
import { at, foreign } from './arrow-messages.js';
import { batchOf, rowsOf } from './rows.js';

const rows = [
  { phase: 'forward', op: 'all_reduce', request: 'r1', tokens: 7 },
  { phase: 'backward', start_ns: 5n, kv_usage: 0.5 },
  { phase: 'forward', group: 'tp0', open: 1 },
];
const whole = encodePhases(batchOf(rows));
/** Where each message of the stream begins, and the end mark. */
const borders = splitStream(whole).map(({ bytes }) => bytes.byteOffset - whole.byteOffset - 8);

/** The batch, or undefined where the message is refused as it should be. */
function decoded(bytes: Uint8Array): PhaseBatch | undefined {
  try {
    return decodePhases(bytes);
  } catch (error) {
    assert.ok(error instanceof PicketError, String(error));
    assert.ok(['bad_input', 'unsupported_version'].includes(error.code), error.message);
    return undefined;
  }
}

test('a message cut at any byte is refused or loses nothing', () => {
  for (let length = 0; length < whole.length; length++) {
    const batch = decoded(whole.slice(0, length));
    // Only the mark of the stream's end may be missing.
    assert.equal(batch !== undefined, length === whole.length - 8, `${length} of ${whole.length} bytes`);
    if (batch) assert.deepEqual(rowsOf(batch), rowsOf(batchOf(rows)));
  }
});

test('a message with flipped bits is refused or a batch that can be read to its end', () => {
  const flips = fc.array(fc.nat({ max: 8 * whole.length - 1 }), { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(flips, fc.nat({ max: 8 }), (bits, offset) => {
      const bytes = at(offset, whole);
      for (const bit of bits) bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7));
      const batch = decoded(bytes);
      if (!batch) return;
      assert.equal(batch.length, rows.length);
      for (const name of COLUMN_NAMES) {
        const column: PhaseColumns[ColumnName] = batch.columns[name];
        assert.equal('indices' in column ? column.indices.length : column.length, rows.length, name);
        if ('indices' in column)
          for (const index of column.indices) assert.equal(typeof column.values[index], 'string', name);
      }
    }),
    { numRuns: 3000 },
  );
});

/** The header of the record batch in a copy of the message, to be damaged in place. */
function damaged(damage: (header: RecordBatch, view: DataView) => void): Uint8Array {
  const bytes = whole.slice();
  const { table, metadata } = splitStream(bytes).at(-1) as ReturnType<typeof splitStream>[0];
  damage(table.header(new RecordBatch()), new DataView(metadata.buffer, metadata.byteOffset, metadata.length));
  return bytes;
}

test('a count that does not fit into its message is refused at once', () => {
  const endless = damaged((header, view) => view.setInt32((header.nodes(0)?.bb_pos as number) - 4, 2 ** 31 - 1, true));
  assert.throws(() => decodePhases(endless), { code: 'bad_input', message: /2147483\d+ elements in \d+ bytes/ });
});

test('more rows than its columns hold are refused, however many', () => {
  for (const claimed of [4n, 2n ** 40n, -1n]) {
    const position = (header: RecordBatch) => header.bb_pos + (header.bb?.__offset(header.bb_pos, 4) as number);
    const bytes = damaged((header, view) => view.setBigInt64(position(header), claimed, true));
    assert.throws(() => decodePhases(bytes), {
      code: 'bad_input',
      message: /"rank": .* does not hold -?\d+ readable values/,
    });
  }
});

test('a buffer outside its message, or shorter than its column, is refused', () => {
  // Validity of the first column, then its values.
  const values = (header: RecordBatch) => header.buffers(1, new BufferStruct())?.bb_pos as number;
  const beyond = damaged((header, view) => view.setBigInt64(values(header), 1n << 20n, true));
  assert.throws(() => decodePhases(beyond), { code: 'bad_input', message: /a buffer of \d+ bytes at 1048576/ });
  const before = damaged((header, view) => view.setBigInt64(values(header), -8n, true));
  assert.throws(() => decodePhases(before), { code: 'bad_input', message: /at -8/ });
  const short = damaged((header, view) => view.setBigInt64(values(header) + 8, 8n, true));
  assert.throws(() => decodePhases(short), {
    code: 'bad_input',
    message: /"rank": .* does not hold 3 readable values/,
  });
});

test('a stream closed before its record batch has no rows, one cut there is refused', () => {
  const prefix = whole.slice(0, borders.at(-1));
  assert.throws(() => decodePhases(prefix), { code: 'bad_input', message: /ends before its record batch/ });
  const closed = new Uint8Array([...prefix, 255, 255, 255, 255, 0, 0, 0, 0]);
  assert.equal(decodePhases(closed).length, 0);
});

test('messages of a stream in another order are refused', () => {
  const message = (i: number) => whole.slice(borders[i], borders[i + 1] ?? whole.length - 8);
  const last = borders.length - 1;
  for (const order of [[1, 0, last], [0, last, 1, last], [0, 0, last], [last]]) {
    const bytes = Buffer.concat(order.map(message));
    assert.throws(() => decodePhases(bytes), { code: 'bad_input', message: /not an Arrow IPC stream/ });
  }
});

test('messages without the continuation mark, as before Arrow 0.15, are read', () => {
  const parts = borders.map((border, i) => whole.slice(border + 4, borders[i + 1] ?? whole.length - 8));
  assert.deepEqual(rowsOf(decodePhases(Buffer.concat(parts))), rowsOf(batchOf(rows)));
});

test('bytes after the end of the stream are refused rather than lost', () => {
  const bytes = Buffer.concat([whole, whole]);
  assert.throws(() => decodePhases(bytes), { code: 'bad_input', message: /\d+ bytes after its end/ });
});

test('an Arrow file is refused: a message is a stream', () => {
  const file = tableToIPC(tableFromIPC(foreign({})), 'file');
  assert.throws(() => decodePhases(file), { code: 'bad_input', message: /not an Arrow IPC stream/ });
});
