import assert from 'node:assert/strict';
import { it } from 'node:test';
import { type CollectorHeartbeat, decodeHeartbeat, encodeHeartbeat } from '../../protocol/heartbeat.js';

const heartbeat: CollectorHeartbeat = {
  host: 'h',
  version: '1',
  started_at: '2026-02-02T00:00:00.000Z',
  sent_at: '2026-02-02T00:00:10.000Z',
  interval_s: 10,
  stopping: false,
  jobs: [{ job: 'j', run: '1', live: [0], ended: [], died: [3] }],
  rows: { sent: 5, lost: 0 },
  records: { read: 100, lost: 1 },
  phases_dropped: 0,
  clock_error_ns: null,
  sink: { name: 'kafka', ok: true },
  spool_bytes: 0,
};

it('a heartbeat is read as it was written, unknown fields left out', () => {
  assert.deepEqual(decodeHeartbeat(encodeHeartbeat(heartbeat)), heartbeat);
  const newer = Buffer.from(JSON.stringify({ ...heartbeat, later: 1 }));
  assert.deepEqual(decodeHeartbeat(newer), heartbeat);
});

it('a heartbeat that is none is refused with its field', () => {
  assert.throws(() => decodeHeartbeat(Buffer.from('nothing')), { code: 'bad_input' });
  const wrong = Buffer.from(JSON.stringify({ ...heartbeat, rows: { sent: -1, lost: 0 } }));
  assert.throws(() => decodeHeartbeat(wrong), /"rows\.sent"/);
});
