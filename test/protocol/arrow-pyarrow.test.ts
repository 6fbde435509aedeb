import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { decodePhases } from '../../protocol/arrow.js';
import { PYTHON, skipWithout } from '../support/python.js';
import { batchOf, rowsOf } from './rows.js';

/** Prints one stream a line, `name base64`: the same three rows as different Python programs would write them. */
const WRITER = `
import base64, json
import pyarrow as pa

meta = {'picket.schema': 'phases/1', 'picket.job': json.dumps({'job': 'job', 'run': '1', 'host': '', 'groups': {}, 'ranks': []})}
plain = {
    'rank': pa.array([0, 1, 2], pa.int32()),
    'step': pa.array([4, 4, 5], pa.int64()),
    'phase': pa.array(['forward', 'backward', 'forward']).dictionary_encode(),
    'start_ns': pa.array([1 << 60, 2, 3], pa.int64()),
    'dur_ns': pa.array([10, 20, 30], pa.int64()),
    'tokens': pa.array([7, -1, 9], pa.int32()),
    'op': pa.array(['', 'send', '']).dictionary_encode(),
    'open': pa.array([False, True, False]),
}
changes = {
    'plain': {},
    'wide': {'rank': pa.array([0, 1, 2], pa.int64()), 'step': pa.array([4, 4, 5], pa.uint16()), 'dur_ns': pa.array([10., 20., 30.])},
    'text': {'phase': plain['phase'].cast(pa.string()), 'op': plain['op'].cast(pa.large_string())},
    'views': {'phase': plain['phase'].cast(pa.string()).cast(pa.string_view())},
    'nulls': {'tokens': pa.array([7, None, 9], pa.int16()), 'open': pa.array([None, True, None]), 'op': pa.array([None, 'send', None]).dictionary_encode()},
    'small_indices': {'phase': pa.DictionaryArray.from_arrays(pa.array([1, 0, 1], pa.int8()), pa.array(['backward', 'forward']))},
    'sliced': {name: pa.concat_arrays([column, column])[3:] if not pa.types.is_dictionary(column.type) else column for name, column in plain.items()},
    'unknown': {'power_w': pa.array([1., 2., None]), 'tags': pa.array([['a'], [], None]), 'site': pa.array([{'row': 1}] * 3), 'kv': pa.array([[('a', 1)], [], []], pa.map_(pa.string(), pa.int8()))},
    'compressed': {},
    'two_batches': {},
    'no_batch': {},
    'timestamps': {'start_ns': pa.array([1, 2, 3], pa.timestamp('ns'))},
}
for name, changed in changes.items():
    table = pa.table({**plain, **changed}).replace_schema_metadata(meta)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression='lz4' if name == 'compressed' else None)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        if name != 'no_batch':
            writer.write_table(table, max_chunksize=2 if name == 'two_batches' else None)
    print(name, base64.b64encode(sink.getvalue()).decode())
`;

const { status, stdout } = spawnSync(PYTHON, ['-c', WRITER], { encoding: 'utf8' });
const skip = skipWithout('pyarrow');
const streams = new Map(stdout.split('\n').map((line) => line.split(' ') as [string, string]));
const stream = (name: string) => Buffer.from(streams.get(name) ?? '', 'base64');

const ROWS = rowsOf(
  batchOf([
    { rank: 0, step: 4n, start_ns: 1n << 60n, dur_ns: 10n, tokens: 7 },
    { rank: 1, step: 4n, phase: 'backward', start_ns: 2n, dur_ns: 20n, op: 'send', open: 1 },
    { rank: 2, step: 5n, start_ns: 3n, dur_ns: 30n, tokens: 9 },
  ]),
);

test('pyarrow writes the streams', { skip }, () => {
  assert.equal(status, 0);
});

for (const name of ['plain', 'wide', 'text', 'views', 'nulls', 'small_indices', 'sliced', 'unknown'])
  test(`a stream of pyarrow is read: ${name}`, { skip }, () => {
    assert.deepEqual(rowsOf(decodePhases(stream(name))), ROWS);
  });

test('a stream of pyarrow without a batch has no rows', { skip }, () => {
  assert.equal(decodePhases(stream('no_batch')).length, 0);
});

const REFUSED = {
  compressed: /a compressed Arrow stream cannot be read; write it uncompressed/,
  two_batches: /more than one record batch/,
  timestamps: /"start_ns": a column of Timestamp<NANOSECOND>/,
};

for (const [name, message] of Object.entries(REFUSED))
  test(`a stream of pyarrow is refused: ${name}`, { skip }, () => {
    assert.throws(() => decodePhases(stream(name)), { code: 'bad_input', message });
  });
