import type {
  AttemptOutcome,
  LabelSet,
  Learned,
  Message,
  MessageEntry,
  MessageFilter,
  MessageInfo,
  MessageState,
  Outbox,
  OutboxCounts,
  ToldNow,
} from './outbox.js';
import type { SqliteFile } from './sqlite-file.js';

/** Waiting messages of a receiver that no earlier one of the same group holds back. */
const HEADS = `m.receiver = ? AND m.waiting AND NOT EXISTS (
  SELECT 1 FROM messages e
  WHERE e.receiver = m.receiver AND e.group_key = m.group_key AND e.seq < m.seq AND e.waiting)`;

/** The messages of a store. */
export class SqliteOutbox implements Outbox {
  readonly #file: SqliteFile;
  readonly #now: () => number;
  readonly #sql: ReturnType<typeof statementsOf>;
  readonly #record: (id: string, outcome: AttemptOutcome, learned: readonly Learned[]) => void;
  readonly #abandon: (receivers: string) => number;
  readonly #redrive: (id: string | null, receiver: string | null) => number;

  constructor(file: SqliteFile, now: () => number) {
    this.#file = file;
    this.#now = now;
    this.#sql = statementsOf(file);
    this.#record = file.db.transaction(this.#recordAll.bind(this)).immediate;
    this.#abandon = file.db.transaction(this.#abandonAll.bind(this)).immediate;
    this.#redrive = file.db.transaction(this.#redriveAll.bind(this)).immediate;
  }

  due(receiver: string, nowMs: number, limit: number): Message[] {
    return this.#file.run(() =>
      this.#sql.due.all(receiver, nowMs, limit).map((row) => ({
        ...{ id: row.id, receiver, attempts: row.attempts, truncated: row.truncated },
        group: { key: row.group_key, route: row.route, labels: JSON.parse(row.labels) as LabelSet },
        reminder: row.reminder === 1,
        entries: newestOfEach(this.#sql.entries.all(row.seq, row.also)),
      })),
    );
  }

  nextDueMs(receiver: string): number | undefined {
    return this.#file.run(() => this.#sql.nextDue.get(receiver) ?? undefined);
  }

  beginAttempts(ids: readonly string[]): void {
    this.#file.run(() => this.#sql.begin.run(JSON.stringify(ids)));
  }

  recordAttempt(id: string, outcome: AttemptOutcome, learned: readonly Learned[]): void {
    this.#file.run(() => this.#record(id, outcome, learned));
  }

  told(receiver: string, overSinceMs: number): ToldNow[] {
    const rows = this.#file.run(() => this.#sql.told.all(receiver, overSinceMs));
    return rows.map(({ body, labels, over }) => ({
      incident: JSON.parse(body),
      labels: JSON.parse(labels),
      over: over === 1,
    }));
  }

  abandonOthers(receivers: readonly string[]): number {
    return this.#file.run(() => this.#abandon(JSON.stringify(receivers)));
  }

  counts(): OutboxCounts {
    return this.#file.run(() => {
      const { pending, held } = this.#sql.pendingChanges.get() as { pending: number; held: number };
      const counts = { pending, held, failed: 0, delivered: 0, dead: 0, void: 0 };
      for (const { state, count } of this.#sql.counts.all()) counts[state] += count;
      return counts;
    });
  }

  list({ state, receiver }: MessageFilter, beforeSeq: number | undefined, limit: number) {
    const given = { state: state ?? null, receiver: receiver ?? null, before: beforeSeq ?? null, limit: limit + 1 };
    const rows = this.#file.run(() => this.#sql.list.all(given));
    const items = rows.slice(0, limit).map(infoOf);
    return { items, nextSeq: rows.length > limit ? rows[limit - 1]?.seq : undefined };
  }

  redrive({ id, receiver }: { id?: string | undefined; receiver?: string | undefined }): number {
    return this.#file.run(() => this.#redrive(id ?? null, receiver ?? null));
  }

  #recordAll(id: string, outcome: AttemptOutcome, learned: readonly Learned[]): void {
    const nowMs = this.#now();
    const error = 'error' in outcome ? outcome.error : null;
    const dueMs = outcome.state === 'failed' ? outcome.retryAtMs : 0;
    const takenBack = outcome.state === 'pending' ? 1 : 0;
    const arrived = 'arrived' in outcome && outcome.arrived ? 1 : 0;
    const row = this.#sql.record.get({ id, state: outcome.state, takenBack, arrived, error, dueMs, nowMs });
    if (!row || outcome.state === 'failed' || outcome.state === 'pending') return;
    for (const { incident, seq, labels } of learned)
      if (labels !== null && (outcome.state !== 'dead' || row.arrived === 1))
        this.#sql.learn.run(row.receiver, incident, row.group_key, seq, JSON.stringify(labels));
      else if (labels === null && outcome.state !== 'dead') this.#sql.over.run(nowMs, row.receiver, incident);
  }

  #abandonAll(receivers: string): number {
    const nowMs = this.#now();
    const { changes } = this.#sql.abandon.run(nowMs, receivers);
    const dropped = this.#sql.dropChanges.run(receivers).changes;
    this.#sql.quietGroups.run(receivers);
    return changes + dropped;
  }

  #redriveAll(id: string | null, receiver: string | null): number {
    const dead = this.#sql.dead.all({ id, receiver });
    for (const { seq, receiver, group_key } of dead) {
      this.#sql.requeue.run(seq);
      this.#sql.forget.run(seq);
      this.#sql.wakeGroup.run(this.#now(), receiver, group_key);
    }
    return dead.length;
  }
}

interface MessageRow {
  readonly seq: number;
  readonly id: string;
  readonly group_key: string;
  readonly also: string;
  readonly truncated: number;
  readonly attempts: number;
  readonly reminder: 0 | 1;
  readonly route: string;
  readonly labels: string;
}

interface EntryRow {
  readonly seq: number;
  readonly event: MessageEntry['event'];
  readonly incident_id: string;
  readonly incident: string;
  readonly told: string | null;
}

function newestOfEach(rows: readonly EntryRow[]): MessageEntry[] {
  const newest = new Map(rows.map((row) => [row.incident_id, row]));
  return [...newest.values()]
    .sort((a, b) => a.seq - b.seq)
    .map(({ seq, event, incident, told }) => ({
      ...{ seq, event, incident: JSON.parse(incident), told: told === null ? null : JSON.parse(told) },
    }));
}

interface InfoRow extends Pick<MessageInfo, 'id' | 'receiver' | 'state' | 'attempts' | 'error'> {
  readonly seq: number;
  readonly group_key: string;
  readonly created_ms: number;
  readonly changed_ms: number;
  readonly incidents: string;
}

const infoOf = ({ id, receiver, state, attempts, error, ...row }: InfoRow): MessageInfo => ({
  ...{ id, receiver, groupKey: row.group_key, state, attempts, error },
  ...{ createdMs: row.created_ms, changedMs: row.changed_ms, incidents: JSON.parse(row.incidents) },
});

function statementsOf({ db }: SqliteFile) {
  return {
    due: db.prepare<unknown[], MessageRow>(`
      SELECT m.seq, m.id, m.group_key, m.also, m.truncated, m.attempts, g.route, g.labels,
        NOT EXISTS (SELECT 1 FROM changes c WHERE c.message_seq = m.seq) AS reminder
      FROM messages m JOIN alert_groups g ON g.receiver = m.receiver AND g.key = m.group_key
      WHERE ${HEADS} AND m.due_ms <= ? ORDER BY m.due_ms, m.seq LIMIT ?`),
    nextDue: db.prepare<[string], number | null>(`SELECT min(m.due_ms) FROM messages m WHERE ${HEADS}`).pluck(),
    entries: db.prepare<[number, string], EntryRow>(`
      SELECT c.seq, c.event, c.incident_id, c.incident, t.labels AS told FROM changes c
      LEFT JOIN told t ON t.receiver = c.receiver AND t.incident_id = c.incident_id AND t.over_ms IS NULL
      WHERE c.seq IN (SELECT seq FROM changes WHERE message_seq = ? UNION SELECT value FROM json_each(?)) ORDER BY c.seq`),
    // Still begun: a kill has cut off the attempt before.
    begin: db.prepare(`
      UPDATE messages SET arrived = max(arrived, begun), begun = 1, attempts = attempts + 1
      WHERE id IN (SELECT value FROM json_each(?)) AND waiting`),
    record: db.prepare<unknown[], { receiver: string; group_key: string; arrived: 0 | 1 }>(`
      UPDATE messages
      SET state = @state, attempts = attempts - @takenBack, begun = 0, arrived = max(arrived, @arrived), error = @error, due_ms = @dueMs, changed_ms = @nowMs
      WHERE id = @id AND waiting RETURNING receiver, group_key, arrived`),
    learn: db.prepare(`
      INSERT INTO told (receiver, incident_id, group_key, change_seq, labels) VALUES (?, ?, ?, ?, ?)
      ON CONFLICT DO UPDATE SET
        group_key = excluded.group_key, change_seq = excluded.change_seq, labels = excluded.labels, over_ms = NULL`),
    over: db.prepare('UPDATE told SET over_ms = ? WHERE receiver = ? AND incident_id = ? AND over_ms IS NULL'),
    told: db.prepare<[string, number], { body: string; labels: string; over: 0 | 1 }>(`
      SELECT i.body, t.labels, t.over_ms IS NOT NULL AS over FROM told t JOIN incidents i ON i.id = t.incident_id
      WHERE t.receiver = ? AND (t.over_ms IS NULL OR t.over_ms >= ?) ORDER BY t.change_seq`),
    abandon: db.prepare(`
      UPDATE messages SET state = 'dead', error = 'receiver is not configured', changed_ms = ?
      WHERE waiting AND receiver NOT IN (SELECT value FROM json_each(?))`),
    dropChanges: db.prepare(`
      UPDATE changes SET dropped = 'receiver is not configured'
      WHERE message_seq IS NULL AND dropped IS NULL AND receiver NOT IN (SELECT value FROM json_each(?))`),
    quietGroups: db.prepare(`
      UPDATE alert_groups SET due_ms = NULL WHERE receiver NOT IN (SELECT value FROM json_each(?))`),
    counts: db.prepare<[], { state: MessageState; count: number }>(
      'SELECT state, count(*) AS count FROM messages GROUP BY state',
    ),
    pendingChanges: db.prepare<[], { pending: number; held: number }>(`
      SELECT count(*) FILTER (WHERE NOT held) AS pending, count(*) FILTER (WHERE held) AS held
      FROM changes INDEXED BY changes_pending WHERE message_seq IS NULL AND dropped IS NULL`),
    list: db.prepare<unknown[], InfoRow>(`
      SELECT m.*, (SELECT json_group_array(DISTINCT c.incident_id) FROM changes c
        WHERE c.message_seq = m.seq OR c.seq IN (SELECT value FROM json_each(m.also))) AS incidents
      FROM messages m
      WHERE (@state IS NULL OR m.state = @state) AND (@receiver IS NULL OR m.receiver = @receiver)
        AND (@before IS NULL OR m.seq < @before)
      ORDER BY m.seq DESC LIMIT @limit`),
    dead: db.prepare<unknown[], { seq: number; receiver: string; group_key: string }>(`
      SELECT seq, receiver, group_key FROM messages
      WHERE state = 'dead' AND (@id IS NULL OR id = @id) AND (@receiver IS NULL OR receiver = @receiver) ORDER BY seq`),
    requeue: db.prepare('UPDATE changes SET message_seq = NULL, held = 1 WHERE message_seq = ?'),
    forget: db.prepare('DELETE FROM messages WHERE seq = ?'),
    wakeGroup: db.prepare('UPDATE alert_groups SET due_ms = ? WHERE receiver = ? AND key = ?'),
  };
}
