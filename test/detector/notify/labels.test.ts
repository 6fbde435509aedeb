import assert from 'node:assert/strict';
import { test } from 'node:test';
import { alertName, fingerprintOf, labelsOf, listed } from '../../../detector/notify/labels.js';
import { INCIDENT_KINDS } from '../../../protocol/incident.js';
import { newIncident } from '../store/support.js';

test('fingerprints are those of Prometheus', () => {
  const hex = (value: bigint) => value.toString(16).padStart(16, '0');
  assert.equal(fingerprintOf({}), hex(14695981039346656037n));
  assert.equal(fingerprintOf({ name: 'garland, briggs', fear: 'love is not enough' }), hex(5799056148416392346n));
  assert.equal(fingerprintOf({ 'first-label': 'first-label-value' }), hex(5146282821936882169n));
});

test('every kind has an alert name of its own', () => {
  assert.equal(alertName('straggler'), 'PicketStraggler');
  assert.equal(alertName('no_cuda_graph'), 'PicketNoCudaGraph');
  assert.equal(new Set(INCIDENT_KINDS.map(alertName)).size, INCIDENT_KINDS.length);
});

test('labels name the subject and hold nothing that was measured', () => {
  const subject = { ranks: [9, 0, 1, 2, 5], hosts: ['h1', 'h2'], stage: 0, nic: 'mlx5_0', requests: ['r1'] };
  const incident = newIncident('a', { subject });
  assert.deepEqual(labelsOf(incident, 'critical'), {
    alertname: 'PicketStraggler',
    kind: 'straggler',
    severity: 'critical',
    cause: 'compute',
    incident_id: 'a',
    rule: 'straggler',
    job: 'llama',
    run: '1',
    ranks: '0-2,5,9',
    hosts: 'h1,h2',
    stage: '0',
    nic: 'mlx5_0',
  });
  const later = newIncident('a', {
    subject,
    cost: { ms_per_step: 99, step_fraction: 0.9, gpu_seconds: 1e6 },
    evidence: { slowdown: 8 },
    confidence: 0.5,
    last_step: 9_999,
    summary: 'worse',
  });
  assert.deepEqual(labelsOf(later, 'critical'), labelsOf(incident, 'critical'));
});

test('long lists are cut and say so', () => {
  const even = Array.from({ length: 1_000 }, (_, i) => 2 * i);
  const { ranks = '' } = labelsOf(newIncident('a', { subject: { ranks: even } }), 'warning');
  assert.match(ranks, /^0,2,4,.*,30 and 984 more$/);
  const all = Array.from({ length: 1_000 }, (_, i) => i);
  assert.equal(labelsOf(newIncident('a', { subject: { ranks: all } }), 'warning').ranks, '0-999');
  assert.equal(listed([]), '');
});
