import type { Silence, SilenceStore } from './silences.js';
import type { SqliteFile } from './sqlite-file.js';

interface SilenceRow {
  readonly id: string;
  readonly match: string;
  readonly starts_ms: number;
  readonly ends_ms: number;
  readonly author: string;
  readonly reason: string;
  readonly created_ms: number;
}

const silenceOf = ({ id, match, author, reason, ...row }: SilenceRow): Silence => ({
  ...{ id, match: JSON.parse(match), author, reason },
  ...{ startsMs: row.starts_ms, endsMs: row.ends_ms, createdMs: row.created_ms },
});

/** The silences of a store. */
export class SqliteSilences implements SilenceStore {
  readonly #file: SqliteFile;
  readonly #sql: ReturnType<typeof statementsOf>;

  constructor(file: SqliteFile) {
    this.#file = file;
    this.#sql = statementsOf(file);
  }

  add(silence: Silence): void {
    this.#file.run(() => this.#sql.add.run({ ...silence, match: JSON.stringify(silence.match) }));
  }

  get(id: string): Silence | undefined {
    const row = this.#file.run(() => this.#sql.get.get(id));
    return row && silenceOf(row);
  }

  endingAfter(ms: number): Silence[] {
    return this.#file.run(() => this.#sql.endingAfter.all(ms).map(silenceOf));
  }

  list(limit: number): Silence[] {
    return this.#file.run(() => this.#sql.list.all(limit).map(silenceOf));
  }

  expire(id: string, nowMs: number): boolean {
    return this.#file.run(() => this.#sql.expire.run({ id, nowMs }).changes > 0);
  }
}

function statementsOf({ db }: SqliteFile) {
  return {
    add: db.prepare(`
      INSERT INTO silences (id, match, starts_ms, ends_ms, author, reason, created_ms)
      VALUES (@id, @match, @startsMs, @endsMs, @author, @reason, @createdMs)`),
    get: db.prepare<[string], SilenceRow>('SELECT * FROM silences WHERE id = ?'),
    endingAfter: db.prepare<[number], SilenceRow>(
      'SELECT * FROM silences WHERE ends_ms > ? ORDER BY created_ms DESC, id',
    ),
    list: db.prepare<[number], SilenceRow>('SELECT * FROM silences ORDER BY created_ms DESC, id LIMIT ?'),
    // One that has not begun never begins.
    expire: db.prepare(`
      UPDATE silences SET starts_ms = min(starts_ms, @nowMs), ends_ms = min(ends_ms, @nowMs) WHERE id = @id`),
  };
}
