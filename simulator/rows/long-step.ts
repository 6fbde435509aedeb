import { KIND } from '../../protocol/vocabulary.js';
import type { RowFacts } from './row-writer.js';

interface Entry {
  /** When the collector has it, ns. */
  readonly at: number;
  readonly rank: number;
  readonly start: number;
  readonly dur: number;
  readonly facts: RowFacts;
}

/**
 * Rows of a step so long that readers see a part of it before it ends: what lasts is reported again and again while it is
 * open, and everything is put in the order in which collectors have it.
 */
export class LongStep {
  readonly #everyNs: number;
  readonly #entries: Entry[] = [];

  /** `everyNs`: how often a collector reports what is open. */
  constructor(everyNs: number) {
    this.#everyNs = everyNs;
  }

  add(rank: number, start: number, dur: number, facts: RowFacts): void {
    // A host gap is seen when it is over: nothing marks its beginning but the end of a step.
    if (facts.kind !== KIND.step && facts.phase !== 'host_gap')
      for (let open = this.#everyNs; open < dur; open += this.#everyNs)
        this.#entries.push({ at: start + open, rank, start, dur: open, facts: openFacts(facts) });
    this.#entries.push({ at: start + dur, rank, start, dur, facts: { ...facts } });
  }

  /** Hands on the rows in order of time; `report` after each interval's. */
  play(write: (rank: number, start: number, dur: number, facts: RowFacts) => void, report: () => void): void {
    this.#entries.sort((a, b) => a.at - b.at);
    let interval = Number.NaN;
    for (const { at, rank, start, dur, facts } of this.#entries) {
      const next = Math.floor(at / this.#everyNs);
      if (next > interval) report();
      interval = next;
      write(rank, start, dur, facts);
    }
    report();
  }
}

/** What is known of a phase that has not ended. */
export function openFacts({ max_ns, busy_ns, transfer_ns, ...facts }: RowFacts): RowFacts {
  return { ...facts, open: 1 };
}
