import assert from 'node:assert/strict';
import { test } from 'node:test';
import { problemOf } from '../../../detector/http/problem.js';
import { ERROR_CODES, PicketError } from '../../../protocol/errors.js';

test('every error code has a status and a type of its own', () => {
  const statuses = ERROR_CODES.map((code) => {
    const { status, type } = problemOf(new PicketError(code, 'x'));
    assert.equal(type, `urn:picket:problem:${code}`);
    return [code, status];
  });
  assert.deepEqual(Object.fromEntries(statuses), {
    bad_input: 400,
    bad_config: 500,
    unsupported_version: 500,
    too_large: 413,
    not_found: 404,
    bus_unavailable: 503,
    store_unavailable: 503,
    conflict: 409,
  });
});

test('of a caller’s mistake the field and the remedy are told, of ours nothing', () => {
  const place = { file: '/var/lib/picket.db', field: 'cursor', remedy: 'start again' };
  const { detail, errors } = problemOf(new PicketError('bad_input', 'not a cursor', place));
  assert.equal(detail, 'not a cursor; start again');
  assert.deepEqual(errors, [{ pointer: '/cursor', message: 'not a cursor' }]);
  const ours = problemOf(new PicketError('store_unavailable', 'disk full', place));
  assert.deepEqual(Object.keys(ours), ['type', 'title', 'status']);
});
