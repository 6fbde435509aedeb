import { realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import Database from 'better-sqlite3';
import { makeFolder } from '../../bus/folder.js';
import { PicketError } from '../../protocol/errors.js';
import { migrate } from './migrations.js';

export interface SqliteFileOptions {
  /** The database file; it and its folder are created when absent. */
  readonly path: string;
  /** `full` (default) keeps every commit over a power cut; `normal` may lose the last ones together with their offsets. */
  readonly synchronous?: 'full' | 'normal';
  /** How long to wait for another process's lock; default 5000. */
  readonly busyTimeoutMs?: number;
}

/** An open and current database that no other detector has. */
export interface SqliteFile {
  readonly db: Database.Database;
  /** Runs a piece of work on it; SQLite's errors come out as `store_unavailable` naming the file. */
  run<T>(work: () => T): T;
  close(): void;
}

/** Throws `conflict` when another detector has the file, `unsupported_version` when a newer Picket wrote it, `store_unavailable` otherwise. */
export function openSqliteFile(options: SqliteFileOptions): SqliteFile {
  const run = <T>(work: () => T): T => guarded(options.path, work);
  const { path, lock } = run(() => lockedPath(options));
  try {
    const db = run(() => opened(path, options));
    const close = () => {
      db.close();
      lock.close();
    };
    return { db, run, close };
  } catch (error) {
    lock.close();
    throw error;
  }
}

/*
 * The lock is an open exclusive transaction on a file beside the database: the kernel drops it with its owner however that
 * dies, and the database itself stays readable for backups and the sqlite3 shell.
 */
function lockedPath(options: SqliteFileOptions): { path: string; lock: Database.Database } {
  const folder = dirname(resolve(options.path));
  makeFolder(folder);
  const path = realPath(join(realpathSync(folder), basename(options.path)));
  const lock = new Database(`${path}.lock`, { timeout: options.busyTimeoutMs ?? 5000 });
  try {
    lock.exec('BEGIN EXCLUSIVE');
  } catch (cause) {
    lock.close();
    if ((cause as Error & { code?: string }).code !== 'SQLITE_BUSY') throw cause;
    const remedy = 'stop it first, or give each detector a store of its own';
    throw new PicketError(
      'conflict',
      'another detector has this store open',
      { file: options.path, remedy },
      { cause },
    );
  }
  return { path, lock };
}

/** One file has one lock, by whatever link it is reached. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

function opened(path: string, options: SqliteFileOptions): Database.Database {
  const db = new Database(path, { timeout: options.busyTimeoutMs ?? 5000 });
  try {
    db.pragma('journal_mode = WAL');
    db.pragma(`synchronous = ${options.synchronous ?? 'full'}`);
    db.pragma('foreign_keys = ON');
    // Without it one large transaction leaves its size on disk for good.
    db.pragma(`journal_size_limit = ${64 * 1024 * 1024}`);
    migrate(db);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

function guarded<T>(file: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    if (cause instanceof PicketError) throw cause.place.file ? cause : cause.at({ file });
    if (!(cause instanceof Database.SqliteError) && (cause as NodeJS.ErrnoException).code === undefined) throw cause;
    const { code, message } = cause as NodeJS.ErrnoException;
    const problem = message.includes(code as string) ? message : `${message} (${code})`;
    throw new PicketError('store_unavailable', problem, { file, remedy: remedyOf(code as string) }, { cause });
  }
}

function remedyOf(code: string): string {
  if (code === 'SQLITE_FULL' || code === 'ENOSPC') return 'free space on its disk';
  if (code === 'SQLITE_NOTADB' || code.startsWith('SQLITE_CORRUPT'))
    return 'move the file away, or restore it from a backup';
  return 'check that the folder exists and that this user may write there';
}
