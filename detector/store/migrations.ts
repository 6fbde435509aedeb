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
