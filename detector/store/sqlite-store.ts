import type { TopicPartition } from '../../bus/bus.js';
import { PicketError } from '../../protocol/errors.js';
import type { Incident } from '../../protocol/incident.js';
import { decodeCursor, encodeCursor } from './cursor.js';
import type { Acknowledgement } from './feed.js';
import { epochNsOf, incidentQuery, ranksColumn } from './incident-query.js';
import { SqliteFeed } from './sqlite-feed.js';
import { openSqliteFile, type SqliteFile, type SqliteFileOptions } from './sqlite-file.js';
import { SqliteGroups } from './sqlite-groups.js';
import { SqliteOutbox } from './sqlite-outbox.js';
import { SqliteSilences } from './sqlite-silences.js';
import type { Acquired, Checkpoint, Commit, IncidentFilter, IncidentPage, JobSeen, Store } from './store.js';

export interface SqliteStoreOptions extends SqliteFileOptions {
  /** Epoch milliseconds; dates changes for retention. */
  readonly now: () => number;
}

/** Opens the store and owns its file until `close`. Throws as `openSqliteFile` does. */
export function openSqliteStore(options: SqliteStoreOptions): Store {
  const file = openSqliteFile(options);
  try {
    return file.run(() => new SqliteStore(file, options.now));
  } catch (error) {
    file.close();
    throw error;
  }
}

class SqliteStore implements Store {
  readonly groups: SqliteGroups;
  readonly outbox: SqliteOutbox;
  readonly silences: SqliteSilences;
  readonly feed: SqliteFeed;
  readonly #file: SqliteFile;
  readonly #now: () => number;
  readonly #sql: ReturnType<typeof statementsOf>;
  readonly #cursorKey: Uint8Array;
  readonly #write: (commit: Commit) => void;
  readonly #acknowledge: (id: string, given: Acknowledgement) => Incident | undefined;

  constructor(file: SqliteFile, now: () => number) {
    this.#file = file;
    this.#now = now;
    this.groups = new SqliteGroups(file, now);
    this.outbox = new SqliteOutbox(file, now);
    this.silences = new SqliteSilences(file);
    this.feed = new SqliteFeed(file);
    this.#sql = statementsOf(file);
    const key = file.db.prepare<[], Uint8Array>("SELECT value FROM secrets WHERE name = 'cursor'").pluck().get();
    this.#cursorKey = key as Uint8Array;
    this.#write = file.db.transaction((commit: Commit) => this.#writeAll(commit)).immediate;
    this.#acknowledge = file.db.transaction((id: string, given: Acknowledgement) => {
      const incident = this.incident(id);
      const now = incident && this.feed.acknowledge(incident, given);
      if (now && now !== incident) this.#save(now);
      return now;
    }).immediate;
  }

  acquire({ topic, partition }: TopicPartition): Acquired {
    const row = this.#file.run(() => this.#sql.acquire.get(topic, partition)) as CheckpointRow;
    return { epoch: Number(row.epoch), checkpoint: this.#checkpointOf(row, { topic, partition }) };
  }

  commit(commit: Commit): void {
    this.#file.run(() => this.#write(commit));
  }

  checkpoint({ topic, partition }: TopicPartition): Checkpoint | undefined {
    const row = this.#file.run(() => this.#sql.checkpoint.get(topic, partition));
    return this.#checkpointOf(row, { topic, partition });
  }

  /** Undefined also for a partition that was acquired and never committed. */
  #checkpointOf(row: CheckpointRow | undefined, { topic, partition }: TopicPartition): Checkpoint | undefined {
    if (!row || row.next_offset === null) return undefined;
    const states = this.#file.run(() => this.#sql.jobStates.all(topic, partition));
    const jobs = new Map(states.map(({ job, state }) => [Buffer.from(job).toString(), state]));
    return { nextOffset: row.next_offset, restartOffset: row.restart_offset, snapshot: row.snapshot, jobs };
  }

  openIncidents(jobs?: readonly string[]): Incident[] {
    const list = jobs ? JSON.stringify(jobs) : null;
    return this.#file.run(() => this.#sql.openIncidents.all({ jobs: list }).map(incidentOf));
  }

  incident(id: string): Incident | undefined {
    const body = this.#file.run(() => this.#sql.incident.get(id));
    return body === undefined ? undefined : incidentOf(body);
  }

  acknowledge(id: string, given: Acknowledgement): Incident | undefined {
    return this.#file.run(() => this.#acknowledge(id, given));
  }

  listIncidents(filter: IncidentFilter, cursor: string | undefined, limit: number): IncidentPage {
    const after = cursor === undefined ? undefined : decodeCursor(this.#cursorKey, filter, cursor);
    // One more than asked for tells whether a page follows.
    const { sql, parameters } = incidentQuery(filter, after, limit + 1);
    const query = () =>
      this.#file.db
        .prepare<unknown[], ListRow>(sql)
        .safeIntegers()
        .all(...parameters);
    const rows = this.#file.run(query);
    const items = rows.slice(0, limit);
    const last = rows.length > limit ? items.at(-1) : undefined;
    const position = last && { startedNs: last.started_ns, id: last.id };
    return {
      items: items.map(({ body }) => incidentOf(body)),
      nextCursor: position && encodeCursor(this.#cursorKey, filter, position),
    };
  }

  job(name: string): JobSeen | undefined {
    return this.#file.run(() => this.#sql.job.get(name));
  }

  jobNames(limit: number): string[] {
    return this.#file.run(() => this.#sql.jobNames.all(limit));
  }

  prune(maxAgeMs: number, limit: number): number {
    const before = this.#now() - maxAgeMs;
    return this.#file.run(() => {
      const { pruneIncidents, pruneJobs, pruneMessages, pruneGroups, pruneSilences } = this.#sql;
      const pruned = pruneIncidents.run(before, limit).changes + pruneJobs.run(before, limit).changes;
      for (const what of [pruneMessages, pruneSilences]) what.run(before, limit);
      pruneGroups.run(limit);
      return pruned;
    });
  }

  check(): void {
    this.#file.run(() => this.#file.db.transaction(() => this.#sql.touch.run()).immediate());
  }

  close(): void {
    this.#file.close();
  }

  #save(incident: Incident): void {
    this.#sql.saveIncident.run(rowOf(incident, this.#now()));
  }

  #writeAll({ partition, epoch, checkpoint, incidents, notifications, jobs, changes: news = [] }: Commit): void {
    const { topic, partition: number } = partition;
    const { nextOffset, restartOffset, snapshot, jobs: states = [] } = checkpoint;
    const { changes } = this.#sql.saveCheckpoint.run(nextOffset, restartOffset, snapshot, topic, number, epoch);
    if (changes === 0)
      throw new PicketError('conflict', `${topic}/${number} has been taken over since epoch ${epoch}`, {
        remedy: 'drop what was computed: its new owner computes it again',
      });
    for (const [key, state] of states) {
      const job = Buffer.from(key);
      if (state) this.#sql.saveJobState.run(topic, number, job, state);
      else this.#sql.deleteJobState.run(topic, number, job);
    }
    for (const incident of incidents) this.#save(this.feed.withAcknowledgement(incident));
    for (const incident of news) this.feed.add(this.feed.withAcknowledgement(incident));
    for (const notification of notifications) this.groups.add(notification);
    for (const { job, run, lastDataMs } of jobs) this.#sql.saveJob.run(job, run, lastDataMs);
  }
}

function statementsOf({ db }: SqliteFile) {
  return {
    acquire: db
      .prepare<unknown[], CheckpointRow>(`
        INSERT INTO checkpoints (topic, partition, epoch) VALUES (?, ?, 1)
        ON CONFLICT DO UPDATE SET epoch = epoch + 1
        RETURNING epoch, next_offset, restart_offset, snapshot`)
      .safeIntegers(),
    checkpoint: db
      .prepare<unknown[], CheckpointRow>('SELECT * FROM checkpoints WHERE topic = ? AND partition = ?')
      .safeIntegers(),
    saveCheckpoint: db.prepare(`
      UPDATE checkpoints SET next_offset = ?, restart_offset = ?, snapshot = ?
      WHERE topic = ? AND partition = ? AND epoch = ?`),
    // In the order in which they came: of a job's runs the newest is the last.
    jobStates: db.prepare<unknown[], JobStateRow>(
      'SELECT job, state FROM job_states WHERE topic = ? AND partition = ? ORDER BY rowid',
    ),
    saveJobState: db.prepare(`
      INSERT INTO job_states (topic, partition, job, state) VALUES (?, ?, ?, ?)
      ON CONFLICT DO UPDATE SET state = excluded.state`),
    deleteJobState: db.prepare('DELETE FROM job_states WHERE topic = ? AND partition = ? AND job = ?'),
    // started_ns orders the list: it stays what it was first, or pages would skip.
    saveIncident: db.prepare(`
      INSERT INTO incidents (id, kind, job, rule, status, started_ns, ended_ns, changed_ms, ranks, body)
      VALUES (@id, @kind, @job, @rule, @status, @startedNs, @endedNs, @nowMs, @ranks, @body)
      ON CONFLICT DO UPDATE SET
        kind = excluded.kind, job = excluded.job, rule = excluded.rule, status = excluded.status,
        ended_ns = excluded.ended_ns, changed_ms = excluded.changed_ms, ranks = excluded.ranks, body = excluded.body
      WHERE body <> excluded.body`),
    saveJob: db.prepare(`
      INSERT INTO jobs (name, run, last_data_ms) VALUES (?, ?, ?)
      ON CONFLICT DO UPDATE SET run = excluded.run, last_data_ms = excluded.last_data_ms
      WHERE excluded.last_data_ms >= last_data_ms`),
    openIncidents: db
      .prepare<unknown[], string>(`
        SELECT body FROM incidents
        WHERE status <> 'resolved' AND (@jobs IS NULL OR job IN (SELECT value FROM json_each(@jobs)))
        ORDER BY started_ns, id`)
      .pluck(),
    incident: db.prepare<[string], string>('SELECT body FROM incidents WHERE id = ?').pluck(),
    jobNames: db.prepare<[number], string>('SELECT name FROM jobs ORDER BY last_data_ms DESC, name LIMIT ?').pluck(),
    job: db.prepare<[string], JobSeen>('SELECT name AS job, run, last_data_ms AS lastDataMs FROM jobs WHERE name = ?'),
    pruneIncidents: db.prepare(`
      DELETE FROM incidents WHERE id IN (
        SELECT id FROM incidents i WHERE status = 'resolved' AND changed_ms < ?
          AND NOT EXISTS (
            SELECT 1 FROM changes c LEFT JOIN messages m ON m.seq = c.message_seq
            WHERE c.incident_id = i.id AND c.dropped IS NULL AND (m.seq IS NULL OR m.waiting))
        ORDER BY changed_ms LIMIT ?)`),
    pruneJobs: db.prepare(`
      DELETE FROM jobs WHERE name IN (
        SELECT name FROM jobs j WHERE last_data_ms < ? AND NOT EXISTS (SELECT 1 FROM incidents i WHERE i.job = j.name)
        LIMIT ?)`),
    pruneMessages: db.prepare(`
      DELETE FROM messages WHERE seq IN (
        SELECT seq FROM messages m WHERE NOT waiting AND changed_ms < ?
          AND NOT EXISTS (SELECT 1 FROM changes c WHERE c.message_seq = m.seq)
        LIMIT ?)`),
    pruneGroups: db.prepare(`
      DELETE FROM alert_groups WHERE rowid IN (
        SELECT rowid FROM alert_groups g WHERE due_ms IS NULL
          AND NOT EXISTS (SELECT 1 FROM changes c WHERE c.receiver = g.receiver AND c.group_key = g.key)
          AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.receiver = g.receiver AND m.group_key = g.key AND m.waiting)
        LIMIT ?)`),
    pruneSilences: db.prepare(
      'DELETE FROM silences WHERE id IN (SELECT id FROM silences WHERE ends_ms < ? ORDER BY ends_ms LIMIT ?)',
    ),
    // Changes nothing, but takes the write lock and dirties a page as a commit does.
    touch: db.prepare("UPDATE secrets SET value = value WHERE name = 'cursor'"),
  };
}

interface CheckpointRow {
  readonly epoch: bigint;
  readonly next_offset: bigint | null;
  readonly restart_offset: bigint;
  readonly snapshot: Uint8Array;
}

interface JobStateRow {
  readonly job: Uint8Array;
  readonly state: Uint8Array;
}

interface ListRow {
  readonly id: string;
  readonly started_ns: bigint;
  readonly body: string;
}

const incidentOf = (body: string): Incident => JSON.parse(body);

function rowOf(incident: Incident, nowMs: number): Record<string, unknown> {
  const { id, kind, status, subject, rule, started_at, resolved_at } = incident;
  return {
    id,
    kind,
    job: subject.job,
    rule: rule.id,
    status,
    startedNs: epochNsOf(started_at),
    endedNs: resolved_at === null ? null : epochNsOf(resolved_at),
    nowMs,
    ranks: ranksColumn(subject.ranks),
    body: JSON.stringify(incident),
  };
}
