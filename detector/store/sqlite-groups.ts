import type {
  AlertGroups,
  DueGroup,
  GroupPlan,
  LabelSet,
  NewNotification,
  PendingChange,
  PlannedMessage,
  ToldIncident,
} from './outbox.js';
import type { SqliteFile } from './sqlite-file.js';

/** Messages of one receiver that may wait at a time. */
export const MAX_WAITING = 10_000;

/** The groups of a store, and the changes in them that no message carries yet. */
export class SqliteGroups implements AlertGroups {
  readonly #file: SqliteFile;
  readonly #now: () => number;
  readonly #sql: ReturnType<typeof statementsOf>;
  readonly #flush: (receiver: string, plans: ReadonlyMap<string, GroupPlan>) => void;

  constructor(file: SqliteFile, now: () => number) {
    this.#file = file;
    this.#now = now;
    this.#sql = statementsOf(file);
    this.#flush = file.db.transaction(this.#carryOut.bind(this)).immediate;
  }

  /** Within the store's transaction. A change that is there already is not added again. */
  add({ id, receiver, event, incident, group }: NewNotification): void {
    const last = this.#sql.last.get(incident.id, receiver);
    // Once in a group, an incident stays there until it is over.
    const running = last && last.event !== 'resolved' ? last.group_key : undefined;
    const groupKey = running ?? group?.key;
    if (groupKey === undefined) return;
    const nowMs = this.#now();
    const row = { id, incidentId: incident.id, receiver, groupKey, event, incident: JSON.stringify(incident), nowMs };
    if (this.#sql.add.run(row).changes === 0) return;
    if (running === undefined && group)
      this.#sql.addGroup.run(receiver, group.key, group.route, JSON.stringify(group.labels));
    this.#sql.wake.run(nowMs, receiver, groupKey);
  }

  due(receiver: string, nowMs: number, limit: number): DueGroup[] {
    return this.#file.run(() =>
      this.#sql.due.all(receiver, nowMs, limit).map((row) => ({
        ...{ key: row.key, route: row.route, labels: JSON.parse(row.labels) as LabelSet },
        ...{ flushedMs: row.flushed_ms, waiting: row.waiting === 1 },
        pending: this.#sql.pending.all(receiver, row.key).map(changeOf),
        told: this.#sql.told.all(receiver, row.key).map(toldOf),
      })),
    );
  }

  flush(receiver: string, plans: ReadonlyMap<string, GroupPlan>): void {
    this.#file.run(() => this.#flush(receiver, plans));
  }

  nextDueMs(receiver: string): number | undefined {
    return this.#file.run(() => this.#sql.nextDue.get(receiver) ?? undefined);
  }

  reconsider(): void {
    this.#file.run(() => this.#sql.reconsider.run(this.#now()));
  }

  #carryOut(receiver: string, plans: ReadonlyMap<string, GroupPlan>): void {
    let room = MAX_WAITING - (this.#sql.waiting.get(receiver) ?? 0);
    for (const [group, { messages, held, superseded, dueMs }] of plans) {
      for (const message of messages) this.#addMessage(receiver, group, message, room-- > 0);
      for (const seq of held) this.#sql.hold.run(seq);
      for (const seq of superseded) this.#sql.drop.run('superseded', seq);
      this.#sql.flushed.run(dueMs ?? null, messages.length > 0 ? this.#now() : null, receiver, group);
    }
  }

  #addMessage(receiver: string, group: string, { id, changes, also, truncated }: PlannedMessage, fits: boolean): void {
    const outcome = fits ? { state: 'pending', error: null } : { state: 'dead', error: 'too many messages wait' };
    const row = { id, receiver, group, also: JSON.stringify(also), truncated, nowMs: this.#now(), ...outcome };
    const { lastInsertRowid } = this.#sql.addMessage.run(row);
    for (const seq of changes) this.#sql.carry.run(lastInsertRowid, seq);
  }
}

interface GroupRow {
  readonly key: string;
  readonly route: string;
  readonly labels: string;
  readonly flushed_ms: number | null;
  readonly waiting: 0 | 1;
}

interface ChangeRow {
  readonly seq: number;
  readonly id: string;
  readonly event: PendingChange['event'];
  readonly incident: string;
  readonly created_ms: number;
  readonly held: 0 | 1;
  readonly superseded: 0 | 1;
}

const changeOf = ({ seq, id, event, incident, created_ms, held, superseded }: ChangeRow): PendingChange => ({
  ...{ seq, id, event, createdMs: created_ms, held: held === 1, superseded: superseded === 1 },
  incident: JSON.parse(incident),
});

const toldOf = ({ seq, incident }: { seq: number; incident: string }): ToldIncident => ({
  seq,
  incident: JSON.parse(incident),
});

function statementsOf({ db }: SqliteFile) {
  return {
    last: db.prepare<[string, string], { event: string; group_key: string }>(`
      SELECT event, group_key FROM changes WHERE incident_id = ? AND receiver = ? ORDER BY seq DESC LIMIT 1`),
    add: db.prepare(`
      INSERT OR IGNORE INTO changes (id, incident_id, receiver, group_key, event, incident, created_ms)
      VALUES (@id, @incidentId, @receiver, @groupKey, @event, @incident, @nowMs)`),
    addGroup: db.prepare(`
      INSERT INTO alert_groups (receiver, key, route, labels) VALUES (?, ?, ?, ?)
      ON CONFLICT DO UPDATE SET route = excluded.route, labels = excluded.labels`),
    wake: db.prepare('UPDATE alert_groups SET due_ms = ? WHERE receiver = ? AND key = ?'),
    due: db.prepare<unknown[], GroupRow>(`
      SELECT key, route, labels, flushed_ms, EXISTS (
        SELECT 1 FROM messages m WHERE m.receiver = g.receiver AND m.group_key = g.key AND m.waiting) AS waiting
      FROM alert_groups g WHERE receiver = ? AND due_ms <= ? ORDER BY due_ms LIMIT ?`),
    nextDue: db.prepare<[string], number | null>('SELECT min(due_ms) FROM alert_groups WHERE receiver = ?').pluck(),
    pending: db.prepare<[string, string], ChangeRow>(`
      SELECT seq, id, event, incident, created_ms, held, EXISTS (
        SELECT 1 FROM changes l WHERE l.incident_id = c.incident_id AND l.receiver = c.receiver AND l.seq > c.seq
          AND (l.message_seq IS NOT NULL OR l.dropped IS NOT NULL)) AS superseded
      FROM changes c INDEXED BY changes_pending WHERE receiver = ? AND group_key = ? AND message_seq IS NULL AND dropped IS NULL ORDER BY seq`),
    told: db.prepare<[string, string], { seq: number; incident: string }>(`
      SELECT t.change_seq AS seq, c.incident FROM told t JOIN changes c ON c.seq = t.change_seq
      WHERE t.receiver = ? AND t.group_key = ? AND t.over_ms IS NULL ORDER BY t.change_seq`),
    waiting: db.prepare<[string], number>('SELECT count(*) FROM messages WHERE receiver = ? AND waiting').pluck(),
    addMessage: db.prepare(`
      INSERT INTO messages (id, receiver, group_key, also, truncated, state, error, created_ms, changed_ms)
      VALUES (@id, @receiver, @group, @also, @truncated, @state, @error, @nowMs, @nowMs)`),
    carry: db.prepare('UPDATE changes SET message_seq = ? WHERE seq = ?'),
    hold: db.prepare('UPDATE changes SET held = 1 WHERE seq = ?'),
    drop: db.prepare('UPDATE changes SET dropped = ? WHERE seq = ?'),
    flushed: db.prepare(
      'UPDATE alert_groups SET due_ms = ?, flushed_ms = coalesce(?, flushed_ms) WHERE receiver = ? AND key = ?',
    ),
    reconsider: db.prepare(`
      UPDATE alert_groups SET due_ms = ? WHERE EXISTS (
        SELECT 1 FROM changes c WHERE c.receiver = alert_groups.receiver AND c.group_key = alert_groups.key
          AND c.message_seq IS NULL AND c.dropped IS NULL)
      OR EXISTS (
        SELECT 1 FROM told t WHERE t.receiver = alert_groups.receiver AND t.group_key = alert_groups.key
          AND t.over_ms IS NULL)`),
  };
}
