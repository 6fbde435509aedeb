import type { Statement } from 'better-sqlite3';
import type { Severity } from '../../protocol/incident.js';
import type { SqliteFile } from './sqlite-file.js';
import type {
  AttemptOutcome,
  NewNotification,
  Notification,
  NotificationEvent,
  Outbox,
  OutboxCounts,
} from './store.js';

/** Waiting notifications of a receiver that no earlier one of the same incident holds back. */
const HEADS = `FROM notifications n WHERE n.receiver = ? AND n.waiting AND NOT EXISTS (
  SELECT 1 FROM notifications e
  WHERE e.incident_id = n.incident_id AND e.receiver = n.receiver AND e.seq < n.seq AND e.waiting)`;

/** The severity under which the receiver was last told that the incident fires, unless told since that it is over. */
const TOLD = `(SELECT nullif(iif(l.event = 'resolved', '', l.severity), '') FROM notifications l
  WHERE l.incident_id = @incidentId AND l.receiver = @receiver ORDER BY l.seq DESC LIMIT 1)`;

/** The notifications of a store. */
export class SqliteOutbox implements Outbox {
  readonly #file: SqliteFile;
  readonly #now: () => number;
  readonly #add: Statement;
  readonly #due: Statement<unknown[], NotificationRow>;
  readonly #nextDue: Statement<[string], number | null>;
  readonly #record: Statement;
  readonly #abandon: Statement;
  readonly #counts: Statement<[], { state: keyof OutboxCounts; count: number }>;

  constructor(file: SqliteFile, now: () => number) {
    const { db } = file;
    this.#file = file;
    this.#now = now;
    // A receiver that heard nothing of an incident hears nothing of its end.
    this.#add = db.prepare(`
      INSERT OR IGNORE INTO notifications
        (id, incident_id, receiver, event, severity, told_severity, created_ms, changed_ms, incident)
      SELECT @id, @incidentId, @receiver, @event, @severity, ${TOLD}, @nowMs, @nowMs, @incident
      WHERE @event <> 'resolved' OR ${TOLD} IS NOT NULL`);
    this.#due = db.prepare(`
      SELECT n.id, n.receiver, n.event, n.told_severity, n.attempts, n.incident ${HEADS} AND n.due_ms <= ?
      ORDER BY n.due_ms, n.seq LIMIT ?`);
    this.#nextDue = db.prepare<[string], number | null>(`SELECT min(n.due_ms) ${HEADS}`).pluck();
    this.#record = db.prepare(`
      UPDATE notifications
      SET state = @state, attempts = attempts + 1, error = @error, due_ms = @dueMs, changed_ms = @nowMs
      WHERE id = @id AND waiting`);
    this.#abandon = db.prepare(`
      UPDATE notifications SET state = 'dead', error = 'receiver is not configured', changed_ms = ?
      WHERE waiting AND receiver NOT IN (SELECT value FROM json_each(?))`);
    this.#counts = db.prepare('SELECT state, count(*) AS count FROM notifications GROUP BY state');
  }

  /** Within the store's transaction. */
  add(notification: NewNotification): void {
    const { id, receiver, event, incident } = notification;
    this.#add.run({
      id,
      incidentId: incident.id,
      receiver,
      event,
      severity: incident.severity,
      incident: JSON.stringify(incident),
      nowMs: this.#now(),
    });
  }

  due(receiver: string, nowMs: number, limit: number): Notification[] {
    return this.#file.run(() => this.#due.all(receiver, nowMs, limit).map(notificationOf));
  }

  nextDueMs(receiver: string): number | undefined {
    return this.#file.run(() => this.#nextDue.get(receiver) ?? undefined);
  }

  recordAttempt(id: string, outcome: AttemptOutcome): void {
    const error = outcome.state === 'delivered' ? null : outcome.error;
    const dueMs = outcome.state === 'failed' ? outcome.retryAtMs : 0;
    this.#file.run(() => this.#record.run({ id, state: outcome.state, error, dueMs, nowMs: this.#now() }));
  }

  abandonOthers(receivers: readonly string[]): number {
    return this.#file.run(() => this.#abandon.run(this.#now(), JSON.stringify(receivers)).changes);
  }

  counts(): OutboxCounts {
    const counts = { pending: 0, failed: 0, delivered: 0, dead: 0 };
    for (const { state, count } of this.#file.run(() => this.#counts.all())) counts[state] = count;
    return counts;
  }
}

interface NotificationRow {
  readonly id: string;
  readonly receiver: string;
  readonly event: NotificationEvent;
  readonly told_severity: Severity | null;
  readonly attempts: number;
  readonly incident: string;
}

function notificationOf(row: NotificationRow): Notification {
  const { id, receiver, event, told_severity, attempts, incident } = row;
  return { id, receiver, event, toldSeverity: told_severity, attempts, incident: JSON.parse(incident) };
}
