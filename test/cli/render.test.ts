import assert from 'node:assert/strict';
import { test } from 'node:test';
import { table } from '../../cli/detector-client.js';
import { renderAnalysis, renderIncident } from '../../cli/render.js';
import { newIncident } from '../detector/store/support.js';

test('nothing found is told from nothing judged', () => {
  const of = (rows: number) =>
    renderAnalysis({ incidents: [], quality: [], rows, seconds: 0.1, unclaimed: [], suppressed: new Map() });
  assert.equal(of(1), 'No incident.\n\n1 row in 0.1 s');
  assert.equal(of(2000), 'No incident.\n\n2,000 rows in 0.1 s');
  assert.equal(of(0), 'Nothing was judged: no row could be used.\n\n0 rows in 0.1 s');
});

test('names out of the data move no cursor, forge no line and turn no text around', () => {
  const subject = { job: 'a\u001b[2J\nCRITICAL  \u202eb' };
  const shown = 'a\\u001b[2J\\u000aCRITICAL  \\u202eb';
  assert.equal(table([['JOB'], [subject.job]]), `JOB\n${shown}`);
  const [first] = renderIncident(newIncident('x', { subject })).split('\n');
  assert.equal(first, `WARNING  straggler in ${shown}: rank 3 computes slower than its peers`);
});
