import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import Database from 'better-sqlite3';
import { alertMessage } from '../../../detector/notify/message.js';
import { MIGRATIONS, migrate } from '../../../detector/store/migrations.js';
import { openSqliteStore } from '../../../detector/store/sqlite-store.js';
import { PicketError } from '../../../protocol/errors.js';
import { commitTo, newIncident, newNotification, temporaryFolder } from './support.js';

const tables = (db: Database.Database) =>
  db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").pluck().all() as string[];

test('a file of the first version is brought up to date with what it holds', (t) => {
  const path = join(temporaryFolder(t), 'old.db');
  const db = new Database(path);
  migrate(db, MIGRATIONS.slice(0, 1));
  const incident = newIncident('a');
  db.prepare("INSERT INTO incidents VALUES ('a', 'straggler', 'llama', 'straggler', 'open', 5, NULL, 0, ',3,', ?)").run(
    JSON.stringify(incident),
  );
  db.prepare("INSERT INTO checkpoints VALUES ('phases', 0, 4, 9, 8, x'01')").run();
  assert.ok(!tables(db).includes('messages'));
  db.close();

  const store = openSqliteStore({ path, now: () => 0 });
  t.after(() => store.close());
  assert.deepEqual(store.incident('a'), incident);
  const { epoch, checkpoint } = store.acquire({ topic: 'phases', partition: 0 });
  assert.equal(epoch, 5);
  assert.equal(checkpoint?.restartOffset, 8n);
  commitTo(store, { epoch, notifications: [newNotification('n', incident)] });
  assert.equal(store.outbox.counts().pending, 1);
});

test('versions rise one by one, and the last of them is applied once', (t) => {
  assert.deepEqual(
    MIGRATIONS.map(({ version }) => version),
    MIGRATIONS.map((_, i) => i + 1),
  );
  const db = new Database(':memory:');
  t.after(() => db.close());
  migrate(db);
  assert.doesNotThrow(() => migrate(db));
});

test('a file of a newer Picket is refused and left alone', (t) => {
  const path = join(temporaryFolder(t), 'new.db');
  const db = new Database(path);
  migrate(db, [...MIGRATIONS, { version: 99, name: 'later', sql: 'CREATE TABLE later (x INTEGER) STRICT' }]);
  db.close();
  assert.throws(
    () => openSqliteStore({ path, now: () => 0 }),
    (error) => error instanceof PicketError && error.code === 'unsupported_version' && error.place.file === path,
  );
});

test('a migration that fails leaves the version before it', (t) => {
  const db = new Database(':memory:');
  t.after(() => db.close());
  const broken = {
    version: MIGRATIONS.length + 1,
    name: 'broken',
    sql: 'CREATE TABLE half (x INTEGER) STRICT; INSERT INTO nowhere VALUES (1)',
  };
  assert.throws(() => migrate(db, [...MIGRATIONS, broken]), /nowhere/);
  assert.ok(tables(db).includes('messages'));
  assert.ok(!tables(db).includes('half'));
  assert.equal(db.prepare('SELECT max(version) FROM schema_migrations').pluck().get(), MIGRATIONS.length);
});

test('what an outbox of the second version holds is sent on: in order, under its ids, and its ends are told', (t) => {
  const path = join(temporaryFolder(t), 'old.db');
  const db = new Database(path);
  migrate(db, MIGRATIONS.slice(0, 2));
  const [told, waiting] = [newIncident('told'), newIncident('waiting')];
  for (const { id } of [told, waiting])
    db.prepare(
      "INSERT INTO incidents VALUES (?, 'straggler', 'llama', 'straggler', 'open', 5, NULL, 0, ',3,', '{}')",
    ).run(id);
  const add = db.prepare(`
    INSERT INTO notifications (id, incident_id, receiver, event, severity, state, attempts, due_ms, created_ms, changed_ms, incident)
    VALUES (?, ?, 'ops', ?, 'warning', ?, ?, ?, 1, 1, ?)`);
  add.run('1', 'told', 'opened', 'delivered', 1, 0, JSON.stringify(told));
  add.run('2', 'waiting', 'opened', 'failed', 3, 700, JSON.stringify(waiting));
  add.run('3', 'waiting', 'resolved', 'pending', 0, 0, JSON.stringify(waiting));
  add.run('4', 'told', 'resolved', 'pending', 0, 0, JSON.stringify(told));
  db.close();

  const store = openSqliteStore({ path, now: () => 0 });
  t.after(() => store.close());
  assert.deepEqual(store.outbox.counts(), { pending: 2, failed: 1, delivered: 1, dead: 0, void: 0, held: 0 });
  const due = store.outbox.due('ops', 700, 10);
  assert.deepEqual(
    due.map(({ id, attempts, entries }) => [id, attempts, entries.map(({ event, told }) => [event, told])]),
    [
      ['4', 0, [['resolved', {}]]],
      ['2', 3, [['opened', null]]],
    ],
  );
  const [end] = due.map((message) => alertMessage(message, '', true).told.alerts);
  assert.deepEqual(
    end?.map(({ status, labels }) => [status, labels.severity]),
    [['resolved', 'warning']],
  );
});
