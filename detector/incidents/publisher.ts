import type { Logger } from 'pino';
import type { Producer } from '../../bus/bus.js';
import { PicketError } from '../../protocol/errors.js';
import { TOPICS } from '../../protocol/topics.js';
import type { FeedEntry, IncidentFeed } from '../store/feed.js';

/** Messages of one request. */
const BATCH = 100;

/**
 * Publishes every change of an incident on its topic as JSON, keyed by the incident's id, so that those of one incident
 * keep their order. At least once: after a crash between sending and noting it, a change comes again.
 */
export class IncidentPublisher {
  readonly #feed: IncidentFeed;
  readonly #producer: Pick<Producer, 'send'>;
  readonly #log: Pick<Logger, 'warn' | 'error'>;
  #running: Promise<void> | undefined;
  #woken = false;
  #failing = false;

  constructor(feed: IncidentFeed, producer: Pick<Producer, 'send'>, log: Pick<Logger, 'warn' | 'error'>) {
    this.#feed = feed;
    this.#producer = producer;
    this.#log = log;
  }

  /** Publishes what waits; call it again after a failure. Never throws. */
  wake(): Promise<void> {
    this.#woken = true;
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #run(): Promise<void> {
    try {
      while (this.#woken) {
        this.#woken = false;
        for (let entries = this.#feed.next(BATCH); entries.length > 0; entries = this.#feed.next(BATCH)) {
          await this.#publish(entries);
          this.#feed.published((entries.at(-1) as FeedEntry).seq);
        }
      }
      this.#failing = false;
    } catch (error) {
      if (!this.#failing) this.#log.warn({ err: error }, 'changes of incidents wait to be published');
      this.#failing = true;
    }
  }

  async #publish(entries: readonly FeedEntry[]): Promise<void> {
    try {
      await this.#producer.send(TOPICS.incidents, entries.map(messageOf));
    } catch (error) {
      if (!(error instanceof PicketError && error.code === 'too_large')) throw error;
      // Waiting makes it no smaller, and the store has the incident.
      if (entries.length === 1) this.#log.error({ err: error, incident: entries[0]?.incidentId }, 'not published');
      else for (const entry of entries) await this.#publish([entry]);
    }
  }
}

const messageOf = ({ incidentId, body }: FeedEntry) => ({ key: incidentId, value: new TextEncoder().encode(body) });
