import assert from 'node:assert/strict';
import { test } from 'node:test';
import { renderAnalysis } from '../../cli/render.js';

test('nothing found is told from nothing judged', () => {
  const of = (rows: number) =>
    renderAnalysis({ incidents: [], quality: [], rows, seconds: 0.1, unclaimed: [], suppressed: new Map() });
  assert.equal(of(1), 'No incident.\n\n1 row in 0.1 s');
  assert.equal(of(2000), 'No incident.\n\n2,000 rows in 0.1 s');
  assert.equal(of(0), 'Nothing was judged: no row could be used.\n\n0 rows in 0.1 s');
});
