import { PicketError } from '../../protocol/errors.js';
import type { Incident } from '../../protocol/incident.js';
import {
  type Acknowledgement,
  acknowledged,
  type FeedEntry,
  type IncidentFeed,
  type StoredAcknowledgement,
} from './feed.js';
import type { SqliteFile } from './sqlite-file.js';

/** Changes of incidents that are yet to be published, and who has acknowledged them. */
export class SqliteFeed implements IncidentFeed {
  readonly #file: SqliteFile;
  readonly #sql: ReturnType<typeof statementsOf>;

  constructor(file: SqliteFile) {
    this.#file = file;
    this.#sql = statementsOf(file);
  }

  next(limit: number): FeedEntry[] {
    return this.#file.run(() => this.#sql.next.all(limit));
  }

  published(seq: number): void {
    this.#file.run(() => this.#sql.published.run(seq));
  }

  /** Within the store's transaction. */
  add({ id, ...incident }: Incident): void {
    this.#sql.add.run(id, JSON.stringify({ id, ...incident }));
  }

  /** Within the store's transaction: the incident as it is to be kept. */
  withAcknowledgement(incident: Incident): Incident {
    const known = this.#sql.acknowledgement.get(incident.id);
    return known ? acknowledged(incident, known) : incident;
  }

  /** Within the store's transaction. Throws `conflict` for an incident that is over. */
  acknowledge(incident: Incident, given: Acknowledgement): Incident {
    if (incident.status === 'acknowledged') return incident;
    if (incident.status === 'resolved')
      throw new PicketError('conflict', 'the incident is over', { remedy: 'there is nothing to acknowledge any more' });
    const stored = {
      ...{ ...given, reopened: incident.reopened ?? 0 },
      ...{ position: incident.timeline.length, step: incident.last_step },
    };
    this.#sql.acknowledge.run({ id: incident.id, ...stored });
    const now = acknowledged(incident, stored);
    this.add(now);
    return now;
  }
}

function statementsOf({ db }: SqliteFile) {
  return {
    next: db.prepare<[number], FeedEntry>(
      'SELECT seq, incident_id AS incidentId, body FROM incident_feed ORDER BY seq LIMIT ?',
    ),
    published: db.prepare('DELETE FROM incident_feed WHERE seq <= ?'),
    add: db.prepare('INSERT INTO incident_feed (incident_id, body) VALUES (?, ?)'),
    acknowledgement: db.prepare<[string], StoredAcknowledgement>(
      'SELECT author, note, at_ms AS atMs, reopened, position, step FROM acknowledgements WHERE incident_id = ?',
    ),
    acknowledge: db.prepare(`
      INSERT OR REPLACE INTO acknowledgements (incident_id, author, note, at_ms, reopened, position, step)
      VALUES (@id, @author, @note, @atMs, @reopened, @position, @step)`),
  };
}
