import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GRACE_STEPS, isSubject, truthOf } from '../../eval/match.js';
import { newSubject } from '../../protocol/incident.js';
import type { Truth } from '../../simulator/simulate.js';

const truth: Truth = {
  ...{ job: 'j', kind: 'straggler', cause: 'compute', subject: { ranks: [3] } },
  ...{ onset_step: 50, end_step: 60, strength: 0.2 },
};
const claim = { kinds: ['straggler'], job: 'j', run: '1', step: 55 } as const;

test('a claim is true of its kind, job, attempt and time only', () => {
  assert.equal(truthOf(claim, [truth]), truth);
  assert.equal(truthOf({ ...claim, step: 50 }, [truth]), truth);
  assert.equal(truthOf({ ...claim, step: 59 + GRACE_STEPS }, [truth]), truth);
  assert.equal(truthOf({ ...claim, step: 60 + GRACE_STEPS }, [truth]), undefined);
  assert.equal(truthOf({ ...claim, step: 49 }, [truth]), undefined);
  assert.equal(truthOf({ ...claim, job: 'other' }, [truth]), undefined);
  assert.equal(truthOf({ ...claim, run: '2' }, [truth]), undefined);
  assert.equal(truthOf({ ...claim, kinds: ['comm_slow'] }, [truth]), undefined);
  assert.equal(truthOf({ ...claim, kinds: ['comm_slow', 'straggler'] }, [truth]), truth);
});

const subject = (facts: Parameters<typeof newSubject>[2]): ReturnType<typeof newSubject> => newSubject('j', '1', facts);

test('the ranks of a subject are those of the truth, no fewer and no more', () => {
  assert.ok(isSubject(subject({ ranks: [3] }), { ranks: [3] }, 8));
  assert.ok(isSubject(subject({ ranks: [7, 6] }), { ranks: [6, 7] }, 8));
  assert.ok(!isSubject(subject({ ranks: [3, 4] }), { ranks: [3] }, 8));
  assert.ok(!isSubject(subject({}), { ranks: [3] }, 8));
});

test('a stage, a link and a job are told by what both name', () => {
  assert.ok(isSubject(subject({ stage: 3, ranks: [6, 7] }), { stage: 3 }, 8));
  assert.ok(!isSubject(subject({ stage: 2 }), { stage: 3 }, 8));
  const link = { hosts: ['b'], nic: 'n', groups: ['g', 'h'] };
  assert.ok(isSubject(subject({ group: 'h', hosts: ['a', 'b'] }), link, 8));
  assert.ok(isSubject(subject({ hosts: ['b'], nic: 'n' }), link, 8));
  assert.ok(!isSubject(subject({ group: 'x', hosts: ['a', 'b'] }), link, 8));
  assert.ok(!isSubject(subject({ hosts: ['a', 'b'] }), link, 8));
  assert.ok(!isSubject(subject({}), link, 8));
  assert.ok(isSubject(subject({}), {}, 8));
  assert.ok(isSubject(subject({ ranks: [0, 1] }), {}, 2));
  assert.ok(!isSubject(subject({ ranks: [0] }), {}, 2));
  assert.ok(!isSubject(subject({ stage: 0 }), {}, 2));
});
