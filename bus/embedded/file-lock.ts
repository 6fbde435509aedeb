import Database from 'better-sqlite3';
import { PicketError } from '../../protocol/errors.js';

/**
 * An exclusive lock on a file, between connections and processes. It is SQLite's own lock on an empty database, which the
 * operating system drops when the owner dies: there is no stale lock to find and no owner to guess at. Local disks only.
 */
export class FileLock {
  readonly #database: Database.Database;

  private constructor(database: Database.Database) {
    this.#database = database;
  }

  /** Undefined while another holds it. Creates the file, not its folder. */
  static tryAcquire(path: string): FileLock | undefined {
    const lock = FileLock.open(path);
    if (lock.tryLock()) return lock;
    lock.close();
    return undefined;
  }

  /** The file, not yet locked: for a lock that is taken and given back often. */
  static open(path: string): FileLock {
    try {
      return new FileLock(new Database(path, { timeout: 0 }));
    } catch (error) {
      const remedy = 'check that the folder is there and can be written';
      throw new PicketError('bus_unavailable', `cannot be locked: ${(error as Error).message}`, { file: path, remedy });
    }
  }

  tryLock(): boolean {
    try {
      this.#database.exec('BEGIN EXCLUSIVE');
      return true;
    } catch (error) {
      if ((error as { code?: string }).code === 'SQLITE_BUSY') return false;
      throw error;
    }
  }

  unlock(): void {
    this.#database.exec('ROLLBACK');
  }

  /** Gives the lock back, if it is held. */
  close(): void {
    this.#database.close();
  }
}
