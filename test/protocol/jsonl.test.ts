import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { newJobMeta } from '../../protocol/job-meta.js';
import { formatPhaseLine, type JsonlLine, parsePhaseLine } from '../../protocol/jsonl.js';
import { MAX_NAME_CHARS } from '../../protocol/limits.js';
import { canonicalPhase, KIND } from '../../protocol/vocabulary.js';
import { batchOf, possibleRow, rowsOf } from './rows.js';

const REQUIRED = { rank: 0, step: 1, phase: 'forward', start_ns: '1770000000000000101', dur_ns: 50 };
const line = (fields: object) => JSON.stringify({ ...REQUIRED, ...fields });

function phase(text: string): Extract<JsonlLine, { type: 'phase' }> {
  const parsed = parsePhaseLine(text);
  assert.equal(parsed.type, 'phase');
  return parsed as Extract<JsonlLine, { type: 'phase' }>;
}

/** The one row of a line with every column. */
const rowOfLine = (text: string) => rowsOf(batchOf([phase(text).row]))[0];

test('nanoseconds as strings and as bare numbers differ by exactly 100', () => {
  for (const quote of ['"', '']) {
    const at = (ns: string) =>
      rowOfLine(`{"rank":0,"step":1,"phase":"fwd","start_ns":${quote}${ns}${quote},"dur_ns":1}`);
    const difference =
      (at('1770000000000000201')?.start_ns as bigint) - (at('1770000000000000101')?.start_ns as bigint);
    assert.equal(difference, 100n);
  }
});

test('any int64 is read exactly, bare or quoted, in every 64-bit column', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), fc.boolean(), (value, quoted) => {
      const digits = quoted ? `"${value}"` : `${value}`;
      const row = rowOfLine(
        `{"rank":0,"step":${digits},"phase":"x","start_ns" : ${digits} ,"dur_ns":${digits},"bytes":${digits},"seq":${digits}}`,
      );
      for (const column of ['step', 'start_ns', 'dur_ns', 'bytes', 'seq'] as const) assert.equal(row?.[column], value);
    }),
  );
});

test('digits within text are left alone', () => {
  const row = rowOfLine(line({ request: 'a "step":1234567890123456789, b', group: '1234567890123456789' }));
  assert.equal(row?.request, 'a "step":1234567890123456789, b');
  assert.equal(row?.group, '1234567890123456789');
});

test('facts of the job and the rank are read back as they were written', () => {
  const ranks = [{ rank: 0, gpu: 'GPU-1', local_rank: 3, stage: 1, clock: 'host' as const }];
  const job = { engine: 'vllm', model: 'm', config_hash: 'c0ffee', slots: 256 };
  const batch = batchOf([phase(line({})).row], newJobMeta('job', { ...job, ranks }));
  const { facts } = phase(formatPhaseLine(batch, 0));
  assert.deepEqual([{ rank: 0, ...facts.rank_info }], ranks);
  assert.deepEqual(facts.job_info, job);
});

test('a clock that is neither of the two is refused', () => {
  assert.throws(
    () => parsePhaseLine(line({ clock: 'tsc' })),
    /field "clock": "tsc" is not a clock; write "gpu" or "host"/,
  );
});

test('a written row is read back the same, whatever it holds', () => {
  const meta = newJobMeta('job', { host: 'node-a', groups: { g: [0] }, ranks: [{ rank: 0, dp: 1, gpu: 'GPU-1' }] });
  fc.assert(
    fc.property(possibleRow, (row) => {
      const batch = batchOf([row], meta);
      const read = rowOfLine(formatPhaseLine(batch, 0));
      const [written] = rowsOf(batch);
      const names = { phase: canonicalPhase(row.phase), op: canonicalPhase(row.op ?? '') };
      assert.deepEqual(read, { ...written, ...names });
    }),
  );
});

test('the facts of job, host, rank and groups are read back', () => {
  const meta = newJobMeta('job', {
    run: '2',
    host: 'node-a',
    engine: 'vllm',
    engine_version: '0.11',
    model: '8B',
    device: 'H200',
    groups: { tp0: [0, 1] },
    ranks: [{ rank: 0, local_rank: 3, dp: 1, tp: 0, pp: 2, ep: 4, stage: 2, gpu: 'GPU-1' }],
  });
  const { facts } = phase(formatPhaseLine(batchOf([{}], meta), 0));
  assert.deepEqual(facts, {
    job: 'job',
    run: '2',
    host: 'node-a',
    job_info: { engine: 'vllm', engine_version: '0.11', model: '8B', device: 'H200' },
    rank_info: { local_rank: 3, dp: 1, tp: 0, pp: 2, ep: 4, stage: 2, gpu: 'GPU-1' },
    groups: { tp0: [0, 1] },
  });
});

test('kind and op come from the phase, which may be spelt as people do', () => {
  const reduced = rowOfLine(line({ phase: 'allreduce' }));
  assert.deepEqual([reduced?.phase, reduced?.op, reduced?.kind], ['all_reduce', 'all_reduce', KIND.comm]);
  assert.equal(rowOfLine(line({ phase: 'dataload' }))?.kind, KIND.host);
  const own = rowOfLine(line({ phase: 'my_phase', kind: 'memory', op: 'allgather' }));
  assert.deepEqual([own?.phase, own?.op, own?.kind], ['my_phase', 'all_gather', KIND.memory]);
});

test('null means absent, except where a row needs the value', () => {
  assert.equal(rowOfLine(line({ tokens: null, request: null }))?.tokens, -1);
  assert.deepEqual(parsePhaseLine(line({ dur_ns: null })), {
    type: 'dropped',
    reason: 'invalid_value',
    field: 'dur_ns',
  });
});

test('a value that cannot be a number of its column drops the row with the reason', () => {
  const reasonOf = (fields: string) => {
    const parsed = parsePhaseLine(`{"rank":0,"step":1,"phase":"fwd","start_ns":1,${fields}}`);
    return parsed.type === 'dropped' ? parsed.reason : parsed.type;
  };
  assert.equal(reasonOf('"dur_ns":"NaN"'), 'invalid_value');
  assert.equal(reasonOf('"dur_ns":"1e400"'), 'invalid_value');
  assert.equal(reasonOf('"dur_ns":1e400'), 'invalid_value');
  assert.equal(reasonOf('"dur_ns":1.77e18'), 'invalid_value');
  assert.equal(reasonOf('"dur_ns":1.5'), 'invalid_value');
  assert.equal(reasonOf('"dur_ns":1,"tokens":true'), 'invalid_value');
  assert.equal(reasonOf('"dur_ns":9223372036854775808'), 'duration_too_long');
  assert.equal(reasonOf('"dur_ns":-9223372036854775809'), 'duration_negative');
  assert.equal(reasonOf('"dur_ns":1,"start_ns":9223372036854775808'), 'start_out_of_range');
  assert.equal(reasonOf('"dur_ns":1,"rank":4294967296'), 'rank_out_of_range');
  assert.equal(reasonOf('"dur_ns":1,"tokens":2147483648'), 'value_out_of_range');
  assert.equal(reasonOf('"dur_ns":7447334400000000000'), 'phase');
});

test('an unknown field is named, unless it stands under extra', () => {
  assert.throws(() => parsePhaseLine(line({ duration: 1 })), { message: /field "duration": is unknown; .*"extra"/ });
  assert.equal(phase(line({ extra: { duration: 1, start_ns: 'any' } })).type, 'phase');
});

test('a missing field is named', () => {
  assert.throws(() => parsePhaseLine(line({ dur_ns: undefined })), {
    message: /field "dur_ns": is missing; every row needs/,
  });
});

test('a kind, a fact or a group that cannot be is named', () => {
  assert.throws(() => parsePhaseLine(line({ kind: 'gpu' })), {
    message: /field "kind": "gpu" is not a kind; use one of/,
  });
  assert.throws(() => parsePhaseLine(line({ stage: 'first' })), {
    message: /field "stage": "first" is not an integer/,
  });
  assert.throws(() => parsePhaseLine(line({ job: '' })), { message: /field "job": "" is not a name/ });
  for (const rank of ['0', -1, 4_000_000_000])
    assert.throws(() => parsePhaseLine(line({ groups: { a: [rank] } })), {
      message: /field "groups".*ranks from 0 to 1048575/,
    });
});

test('what is not one JSON object is refused', () => {
  const texts = [
    '{"phase": "{"device": "cpu"}(12): run"}',
    '{"phase":"C:\\new\\x"}',
    '[1]',
    '"text"',
    'null',
    '{"rank":0',
  ];
  for (const text of texts) assert.throws(() => parsePhaseLine(text), { code: 'bad_input', message: /not (a )?JSON/ });
});

test('a name beyond the limit is cut and said to be', () => {
  const parsed = phase(line({ phase: 'k'.repeat(1956), request: 'r' }));
  assert.equal(parsed.row.phase.length, MAX_NAME_CHARS);
  assert.equal(parsed.namesCut, 1);
});

test('a sample is read with exact time and defaults', () => {
  const text = '{"sample":{"time_ns":1770000000000000101,"name":"kv_usage","value":0.5,"job":"serve"}}';
  assert.deepEqual(parsePhaseLine(text), {
    type: 'sample',
    sample: {
      time_ns: 1770000000000000101n,
      job: 'serve',
      host: '',
      rank: -1,
      gpu: '',
      nic: '',
      link: '',
      name: 'kv_usage',
      value: 0.5,
      unit: '',
      cumulative: false,
    },
  });
});

test('a sample without a number is dropped, one with an unknown field is refused', () => {
  const sample = { time_ns: 1, name: 'x', value: 1 };
  const dropped = { type: 'dropped', reason: 'invalid_sample' };
  assert.deepEqual(parsePhaseLine(JSON.stringify({ sample: { ...sample, value: 'NaN' } })), dropped);
  assert.deepEqual(parsePhaseLine(JSON.stringify({ sample: { ...sample, time_ns: '9223372036854775808' } })), dropped);
  assert.throws(() => parsePhaseLine(JSON.stringify({ sample: { ...sample, colour: 1 } })), {
    message: /"sample.colour"/,
  });
  assert.throws(() => parsePhaseLine(JSON.stringify({ sample, rank: 0 })), { message: /field "rank": is unknown/ });
});
