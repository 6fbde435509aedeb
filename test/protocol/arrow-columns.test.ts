import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  Bool,
  type DataType,
  Dictionary,
  Float64,
  Int8,
  Int16,
  Int32,
  Int64,
  LargeUtf8,
  Null,
  TimestampNanosecond,
  Uint64,
  Utf8,
  type Vector,
  vectorFromArray,
} from 'apache-arrow';
import { decodePhases } from '../../protocol/arrow.js';
import type { ColumnName } from '../../protocol/columns.js';
import { foreign } from './arrow-messages.js';
import { rowsOf } from './rows.js';

const read = (name: ColumnName, vector: Vector) => rowsOf(decodePhases(foreign({ [name]: vector })))[0]?.[name];

const READ: [ColumnName, unknown, DataType, unknown][] = [
  ['rank', 5, new Int8(), 5],
  ['rank', 5n, new Uint64(), 5],
  ['step', 300, new Int16(), 300n],
  ['dur_ns', 12, new Float64(), 12n],
  ['open', 1, new Int8(), 1],
  ['kv_usage', 0.5, new Float64(), 0.5],
  ['kv_usage', null, new Float64(), -1],
  ['tokens', null, new Int64(), -1],
  ['tokens', null, new Null(), -1],
  ['open', null, new Bool(), 0],
  ['phase', 'decode', new LargeUtf8(), 'decode'],
  ['phase', 'decode', new Dictionary(new Utf8(), new Int8()), 'decode'],
  ['phase', 'decode', new Dictionary(new LargeUtf8(), new Int32()), 'decode'],
  ['op', null, new Dictionary(new Utf8(), new Int16()), ''],
  ['tokens', 9n, new Dictionary(new Int64(), new Int8()), 9],
];

for (const [name, value, type, expected] of READ)
  test(`${name} is read from ${value} of ${type}`, () => {
    assert.equal(read(name, vectorFromArray([value], type)), expected);
  });

const REFUSED: [ColumnName, unknown, DataType, RegExp][] = [
  ['rank', 2n ** 40n, new Int64(), /"rank": row 0 has 1099511627776, which is no int32/],
  ['rank', 1.5, new Float64(), /"rank": row 0 has 1.5, which is no int32/],
  ['rank', '5', new Utf8(), /"rank": row 0 has 5, which is no int32/],
  ['dur_ns', 1.5, new Float64(), /"dur_ns": row 0 has 1.5, which is no int64/],
  ['dur_ns', 2n ** 63n, new Uint64(), /"dur_ns": row 0 has 9223372036854775808, which is no int64/],
  ['rank', null, new Null(), /"rank": required column is missing/],
  [
    'start_ns',
    1,
    new TimestampNanosecond(),
    /"start_ns": a column of Timestamp<NANOSECOND> does not hold 1 readable values/,
  ],
];

for (const [name, value, type, message] of REFUSED)
  test(`${name} is not read from ${value} of ${type}`, () => {
    assert.throws(() => read(name, vectorFromArray([value], type)), { code: 'bad_input', message });
  });
