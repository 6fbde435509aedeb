import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseFailPoint } from '../../detector/failpoints.js';
import { PicketError } from '../../protocol/errors.js';

test('kills at the counted hit of its own point, once', () => {
  let kills = 0;
  const failPoints = parseFailPoint('notify.after_send:2', () => kills++);
  const seen: number[] = [];
  for (const point of ['notify.after_send', 'notify.before_send', 'notify.after_send', 'notify.after_send'] as const) {
    failPoints.hit(point);
    seen.push(kills);
  }
  assert.deepEqual(seen, [0, 0, 1, 1]);
});

test('a point that does not exist is an error, or a kill test would test nothing', () => {
  for (const spec of ['', 'notify.after_send', 'notify.after_send:0', 'notify.after:1', 'notify.after_send:x'])
    assert.throws(
      () => parseFailPoint(spec, () => undefined),
      (error) => error instanceof PicketError && error.code === 'bad_config' && /notify\.after_ack/.test(error.message),
    );
});
