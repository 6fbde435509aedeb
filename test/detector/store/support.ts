import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { AlertGroup, NewNotification, NotificationEvent } from '../../../detector/store/outbox.js';
import { openSqliteStore } from '../../../detector/store/sqlite-store.js';
import type { Commit, Store } from '../../../detector/store/store.js';
import { type Incident, newSubject, type Subject } from '../../../protocol/incident.js';

export const PARTITION = { topic: 'phases', partition: 0 };

export function temporaryFolder(t: Pick<TestContext, 'after'>): string {
  const folder = mkdtempSync(join(tmpdir(), 'picket-store-'));
  t.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

/** A store in a folder of its own and the clock it reads. */
export function temporaryStore(t: TestContext): { store: Store; path: string; clock: { nowMs: number } } {
  const path = join(temporaryFolder(t), 'picket.db');
  const clock = { nowMs: 1_000_000 };
  const store = openSqliteStore({ path, now: () => clock.nowMs, synchronous: 'normal' });
  t.after(() => store.close());
  return { store, path, clock };
}

/** Commits parts of a step under the partition's epoch, taking it over first when no epoch is given. */
export function commitTo(store: Store, parts: Partial<Commit>): void {
  store.commit({
    partition: PARTITION,
    epoch: parts.epoch ?? store.acquire(PARTITION).epoch,
    checkpoint: { nextOffset: 1n, restartOffset: 0n, snapshot: new Uint8Array() },
    incidents: [],
    notifications: [],
    jobs: [],
    ...parts,
  });
}

export function newIncident(
  id: string,
  facts: Partial<Omit<Incident, 'subject'>> & { subject?: Partial<Subject> } = {},
): Incident {
  return {
    id,
    kind: 'straggler',
    cause: 'compute',
    severity: 'warning',
    status: 'open',
    summary: 'rank 3 computes slower than its peers',
    onset_step: 250,
    detected_step: 258,
    last_step: 300,
    started_at: '2026-03-01T10:00:00.123456789Z',
    detected_at: '2026-03-01T10:00:08Z',
    resolved_at: null,
    cost: { ms_per_step: 12.3456, step_fraction: 0.15, gpu_seconds: 96 },
    confidence: 0.97,
    evidence: { slowdown: 1.23456, peers: 7, steps: [250, 251] },
    runner_up: { kind: 'load_imbalance', why_not: 'tokens differ by 0.1 %' },
    rule: { id: 'straggler', commit: null },
    timeline: [{ at: '2026-03-01T10:00:08Z', step: 258, event: 'opened', note: '' }],
    ...facts,
    subject: { ...newSubject('llama', '1', { ranks: [3] }), ...facts.subject },
  };
}

export const resolved = (incident: Incident, at = '2026-03-01T11:00:00Z'): Incident => ({
  ...incident,
  status: 'resolved',
  resolved_at: at,
  timeline: [...incident.timeline, { at, step: 400, event: 'resolved', note: '' }],
});

export const newNotification = (
  id: string,
  incident: Incident,
  event: NotificationEvent = 'opened',
  receiver = 'ops',
): NewNotification => ({ id, receiver, event, incident, group: groupOf(incident.id) });

/** As a route without grouping makes it. */
export const groupOf = (incident: string): AlertGroup => ({
  ...{
    key: `{}:{incident_id="${incident}"}`,
    route: '',
    labels: { alertname: 'PicketStraggler', incident_id: incident },
  },
});
