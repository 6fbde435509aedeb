import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Finding } from '../../../detector/detectors/finding.js';
import { follow, type IncidentBook, incidentId } from '../../../detector/incidents/incident-book.js';
import { Incident, newSubject } from '../../../protocol/incident.js';
import { T0 } from '../../support/trace.js';

const finding = (facts: Partial<Finding> = {}, stepFraction = 0.3): Finding => ({
  kind: 'straggler',
  key: 'ranks=1',
  subject: newSubject('job', '1', { ranks: [1] }),
  cause: 'host',
  summary: 'rank 1 makes the others wait',
  onsetStep: 10,
  onsetNs: T0,
  cost: { ms_per_step: 3, step_fraction: stepFraction, gpu_seconds: 1 },
  confidence: 0.9,
  evidence: { own_work_excess_ms: 3 },
  runnerUp: null,
  ...facts,
});

const opened = (book: IncidentBook, first = finding()) => follow(book, [first], 12, T0 + 1n)[0]?.after as Incident;

describe('an incident', () => {
  it('opens once, in the form that everybody is told', () => {
    const book: IncidentBook = new Map();
    const incident = opened(book);
    assert.deepEqual(Incident.parse(incident), incident);
    assert.deepEqual(
      [incident.status, incident.severity, incident.onset_step, incident.detected_step, incident.started_at],
      ['open', 'critical', 10, 12, '2026-02-02T02:40:00.000000000Z'],
    );
    assert.deepEqual(follow(book, [finding()], 13, T0 + 2n), []);
    assert.equal([...book.values()][0]?.last_step, 13);
  });

  it('has an id of job, run, kind, subject and onset alone', () => {
    const id = incidentId(finding());
    assert.equal(incidentId(finding({ summary: 'other', onsetNs: 7n, confidence: 0 }, 0.9)), id);
    for (const change of [
      { key: 'ranks=2' },
      { onsetStep: 11 },
      { kind: 'comm_hang' as const },
      { subject: newSubject('job', '2') },
    ])
      assert.notEqual(incidentId(finding(change)), id);
  });

  it('keeps its id when its subject grows', () => {
    const book: IncidentBook = new Map();
    const { id } = opened(book);
    follow(book, [finding({ subject: newSubject('job', '1', { ranks: [1, 2] }) })], 13, T0);
    const [grown] = [...book.values()];
    assert.deepEqual([grown?.id, grown?.subject.ranks], [id, [1, 2]]);
  });

  it('escalates at once and eases only well below the line', () => {
    const book: IncidentBook = new Map();
    opened(book, finding({}, 0.15));
    assert.equal(follow(book, [finding({}, 0.2)], 13, T0)[0]?.after.severity, 'critical');
    assert.deepEqual(follow(book, [finding({}, 0.19)], 14, T0), [], 'so near the line it does not flap');
    const [eased] = follow(book, [finding({}, 0.17)], 15, T0);
    assert.equal(eased?.after.severity, 'warning');
    assert.deepEqual(
      eased?.after.timeline.map(({ event }) => event),
      ['opened', 'escalated', 'eased'],
    );
  });

  it('is resolved when its finding is gone', () => {
    const book: IncidentBook = new Map();
    opened(book);
    const [change] = follow(book, [], 40, T0 + 5_000_000_000n);
    assert.deepEqual([change?.after.status, change?.after.resolved_at], ['resolved', '2026-02-02T02:40:05.000000000Z']);
    assert.equal(book.size, 0);
    assert.deepEqual(follow(book, [], 41, T0), []);
  });
});
