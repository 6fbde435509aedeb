import { randomUUID } from 'node:crypto';
import type { Incident } from '../../protocol/incident.js';
import type { Silence, SilenceStore } from '../store/silences.js';
import { Matcher } from './matcher.js';

export interface SilencesDeps {
  readonly store: SilenceStore;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Called after a silence was added or has been ended. */
  readonly onChange: () => void;
}

/** The silences of a detector. Those that are not over are kept at hand: every group that is looked at asks them. */
export class Silences {
  readonly #deps: SilencesDeps;
  #current: { silence: Silence; matcher: Matcher }[] = [];

  constructor(deps: SilencesDeps) {
    this.#deps = deps;
    this.#load();
  }

  add(given: Omit<Silence, 'id' | 'createdMs'>): Silence {
    const silence = { ...given, id: randomUUID(), createdMs: this.#deps.now() };
    this.#deps.store.add(silence);
    this.#changed();
    return silence;
  }

  get(id: string): Silence | undefined {
    return this.#deps.store.get(id);
  }

  list(limit: number): Silence[] {
    return this.#deps.store.list(limit);
  }

  /** Ends one now; false: there is none. */
  expire(id: string): boolean {
    const found = this.#deps.store.expire(id, this.#deps.now());
    if (found) this.#changed();
    return found;
  }

  /** How many hold now. */
  active(nowMs: number): number {
    return this.#current.filter(({ silence }) => holds(silence, nowMs)).length;
  }

  /** Those that an incident fits now. */
  holding(incident: Incident, nowMs: number): Silence[] {
    return this.#current
      .filter(({ silence, matcher }) => holds(silence, nowMs) && matcher.fits(incident))
      .map(({ silence }) => silence);
  }

  /** When the last of the silences ends that an incident fits now, in epoch milliseconds; undefined: there is none. */
  until(incident: Incident, nowMs: number): number | undefined {
    const ends = this.holding(incident, nowMs).map(({ endsMs }) => endsMs);
    return ends.length > 0 ? Math.max(...ends) : undefined;
  }

  #changed(): void {
    this.#load();
    this.#deps.onChange();
  }

  #load(): void {
    const { store, now } = this.#deps;
    this.#current = store.endingAfter(now()).map((silence) => ({ silence, matcher: new Matcher(silence.match) }));
  }
}

const holds = ({ startsMs, endsMs }: Silence, nowMs: number): boolean => startsMs <= nowMs && nowMs < endsMs;
