import type { Database } from 'better-sqlite3';
import { PicketError } from '../../protocol/errors.js';

export interface Migration {
  readonly version: number;
  readonly name: string;
  readonly sql: string;
}

/** Only ever appended to: what a released version has applied is never edited. Times: _ns epoch nanoseconds, _ms epoch milliseconds. */
export const MIGRATIONS: readonly Migration[] = [
  {
    version: 1,
    name: 'checkpoints, incidents and jobs',
    sql: `
      CREATE TABLE secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT;
      INSERT INTO secrets VALUES ('cursor', randomblob(32));
      CREATE TABLE checkpoints (
        topic TEXT NOT NULL,
        partition INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        next_offset INTEGER,
        restart_offset INTEGER,
        snapshot BLOB,
        PRIMARY KEY (topic, partition),
        CHECK (restart_offset <= next_offset)
      ) STRICT;
      -- body is the incident as JSON, the columns before it what is searched; ranks is ',0,3,'; ended_ns is NULL until resolved.
      CREATE TABLE incidents (
        id TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        job TEXT NOT NULL,
        rule TEXT NOT NULL,
        status TEXT NOT NULL,
        started_ns INTEGER NOT NULL,
        ended_ns INTEGER,
        changed_ms INTEGER NOT NULL,
        ranks TEXT NOT NULL,
        body TEXT NOT NULL
      ) STRICT;
      CREATE INDEX incidents_newest ON incidents (started_ns, id);
      CREATE INDEX incidents_of_job ON incidents (job, started_ns, id);
      CREATE INDEX incidents_open ON incidents (started_ns, id) WHERE status <> 'resolved';
      CREATE INDEX incidents_resolved ON incidents (changed_ms) WHERE status = 'resolved';
      CREATE TABLE jobs (name TEXT PRIMARY KEY, run TEXT NOT NULL, last_data_ms INTEGER NOT NULL) STRICT;
    `,
  },
  {
    version: 2,
    name: 'notification outbox',
    sql: `
      CREATE TABLE notifications (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        incident_id TEXT NOT NULL REFERENCES incidents (id) ON DELETE CASCADE,
        receiver TEXT NOT NULL,
        event TEXT NOT NULL CHECK (event IN ('opened', 'escalated', 'resolved')),
        severity TEXT NOT NULL,
        told_severity TEXT,
        state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'failed', 'delivered', 'dead')),
        waiting INTEGER AS (state IN ('pending', 'failed')),
        attempts INTEGER NOT NULL DEFAULT 0,
        due_ms INTEGER NOT NULL DEFAULT 0,
        created_ms INTEGER NOT NULL,
        changed_ms INTEGER NOT NULL,
        error TEXT,
        incident TEXT NOT NULL
      ) STRICT;
      CREATE INDEX notifications_of_incident ON notifications (incident_id, receiver, seq);
      CREATE INDEX notifications_due ON notifications (receiver, due_ms, seq) WHERE waiting;
      CREATE INDEX notifications_state ON notifications (state);
    `,
  },
  {
    version: 3,
    name: 'groups of alerts, messages and silences',
    sql: `
      CREATE TABLE alert_groups (
        receiver TEXT NOT NULL,
        key TEXT NOT NULL,
        route TEXT NOT NULL,
        labels TEXT NOT NULL,
        due_ms INTEGER,
        flushed_ms INTEGER,
        PRIMARY KEY (receiver, key)
      ) STRICT;
      CREATE INDEX alert_groups_due ON alert_groups (receiver, due_ms) WHERE due_ms IS NOT NULL;
      -- also: seq of changes told before that it names beside its own.
      CREATE TABLE messages (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        receiver TEXT NOT NULL,
        group_key TEXT NOT NULL,
        also TEXT NOT NULL DEFAULT '[]',
        truncated INTEGER NOT NULL DEFAULT 0,
        state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'failed', 'delivered', 'dead', 'void')),
        waiting INTEGER AS (state IN ('pending', 'failed')),
        attempts INTEGER NOT NULL DEFAULT 0,
        -- begun: an attempt is under way; arrived: one that failed or was cut off may have arrived all the same.
        begun INTEGER NOT NULL DEFAULT 0,
        arrived INTEGER NOT NULL DEFAULT 0,
        due_ms INTEGER NOT NULL DEFAULT 0,
        created_ms INTEGER NOT NULL,
        changed_ms INTEGER NOT NULL,
        error TEXT
      ) STRICT;
      CREATE INDEX messages_of_group ON messages (receiver, group_key, seq) WHERE waiting;
      CREATE INDEX messages_due ON messages (receiver, due_ms, seq) WHERE waiting;
      CREATE INDEX messages_state ON messages (state, seq);
      CREATE INDEX messages_changed ON messages (changed_ms) WHERE NOT waiting;
      CREATE TABLE changes (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        incident_id TEXT NOT NULL REFERENCES incidents (id) ON DELETE CASCADE,
        receiver TEXT NOT NULL,
        group_key TEXT NOT NULL,
        event TEXT NOT NULL CHECK (event IN ('opened', 'escalated', 'resolved')),
        incident TEXT NOT NULL,
        created_ms INTEGER NOT NULL,
        held INTEGER NOT NULL DEFAULT 0,
        message_seq INTEGER REFERENCES messages (seq) ON DELETE SET NULL,
        dropped TEXT
      ) STRICT;
      CREATE INDEX changes_of_incident ON changes (incident_id, receiver, seq);
      CREATE INDEX changes_of_group ON changes (receiver, group_key);
      CREATE INDEX changes_of_message ON changes (message_seq);
      CREATE INDEX changes_pending ON changes (receiver, group_key, seq) WHERE message_seq IS NULL AND dropped IS NULL;
      -- over_ms: the receiver was told that it is over.
      CREATE TABLE told (
        receiver TEXT NOT NULL,
        incident_id TEXT NOT NULL REFERENCES incidents (id) ON DELETE CASCADE,
        group_key TEXT NOT NULL,
        change_seq INTEGER NOT NULL,
        labels TEXT NOT NULL,
        over_ms INTEGER,
        PRIMARY KEY (receiver, incident_id)
      ) STRICT;
      CREATE INDEX told_of_group ON told (receiver, group_key) WHERE over_ms IS NULL;
      CREATE TABLE silences (
        id TEXT PRIMARY KEY,
        match TEXT NOT NULL,
        starts_ms INTEGER NOT NULL,
        ends_ms INTEGER NOT NULL,
        author TEXT NOT NULL,
        reason TEXT NOT NULL,
        created_ms INTEGER NOT NULL
      ) STRICT;
      CREATE INDEX silences_end ON silences (ends_ms);

      INSERT INTO messages (seq, id, receiver, group_key, state, attempts, due_ms, created_ms, changed_ms, error)
        SELECT seq, id, receiver, '{}:{incident_id="' || incident_id || '"}', state, attempts, due_ms, created_ms, changed_ms, error
        FROM notifications ORDER BY seq;
      INSERT INTO changes (seq, id, incident_id, receiver, group_key, event, incident, created_ms, message_seq)
        SELECT seq, id, incident_id, receiver, '{}:{incident_id="' || incident_id || '"}', event, incident, created_ms, seq
        FROM notifications ORDER BY seq;
      INSERT INTO alert_groups (receiver, key, route, labels)
        SELECT DISTINCT receiver, '{}:{incident_id="' || incident_id || '"}', '', json_object('incident_id', incident_id)
        FROM notifications;
      -- Under which labels is not known of these: empty stands for those that the incident has.
      INSERT INTO told (receiver, incident_id, group_key, change_seq, labels)
        SELECT receiver, incident_id, group_key, max(seq), '{}' FROM changes c
        WHERE EXISTS (SELECT 1 FROM messages m WHERE m.seq = c.message_seq AND m.state = 'delivered')
        GROUP BY receiver, incident_id HAVING event <> 'resolved';
      DROP TABLE notifications;
    `,
  },
  {
    version: 4,
    name: 'feed of incidents, and acknowledgements',
    sql: `
      CREATE TABLE incident_feed (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        incident_id TEXT NOT NULL,
        body TEXT NOT NULL
      ) STRICT;
      CREATE TABLE acknowledgements (
        incident_id TEXT PRIMARY KEY REFERENCES incidents (id) ON DELETE CASCADE,
        author TEXT NOT NULL,
        note TEXT NOT NULL,
        at_ms INTEGER NOT NULL,
        reopened INTEGER NOT NULL,
        position INTEGER NOT NULL,
        step INTEGER NOT NULL
      ) STRICT;
    `,
  },
  {
    version: 5,
    name: 'a row for the state of each job',
    sql: `
      CREATE TABLE job_states (
        topic TEXT NOT NULL,
        partition INTEGER NOT NULL,
        job BLOB NOT NULL,
        state BLOB NOT NULL,
        PRIMARY KEY (topic, partition, job)
      ) STRICT;
    `,
  },
];

/**
 * Brings a database to the last of `migrations`, each in a transaction of its own.
 * Throws `unsupported_version` when a newer Picket has written it.
 */
export function migrate(db: Database, migrations: readonly Migration[] = MIGRATIONS): void {
  db.exec('CREATE TABLE IF NOT EXISTS schema_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT');
  const applied = db.prepare<[], number | null>('SELECT max(version) FROM schema_migrations').pluck().get() ?? 0;
  const known = migrations.at(-1)?.version ?? 0;
  if (applied > known)
    throw new PicketError('unsupported_version', `schema version ${applied}, and this Picket knows ${known}`, {
      remedy: 'start the newer Picket again, or give this one another file',
    });
  const record = db.prepare('INSERT INTO schema_migrations (version, name) VALUES (?, ?)');
  for (const { version, name, sql } of migrations.filter((migration) => migration.version > applied))
    db.transaction(() => {
      db.exec(sql);
      record.run(version, name);
    }).immediate();
}
