import type { CallFacts } from './host-records.js';

/** Deeper nesting is not believed: begins whose ends never come. */
const MAX_DEPTH = 64;

/**
 * Phases of one lane or thread that have begun and not ended; begins and ends nest. `Owner` is what the phase belongs to.
 * Times are in the clock of the records.
 */
export class NestingStack<Owner> {
  depth = 0;
  readonly phases = new Int32Array(MAX_DEPTH);
  readonly starts = new Float64Array(MAX_DEPTH);
  /** Time in phases nested within that is not the phase's own. */
  readonly nested = new Float64Array(MAX_DEPTH);
  readonly owners: Owner[] = [];
  readonly calls: (CallFacts | undefined)[] = [];

  get full(): boolean {
    return this.depth === MAX_DEPTH;
  }

  push(phase: number, start: number, owner: Owner, call: CallFacts | undefined): void {
    const at = this.depth++;
    this.phases[at] = phase;
    this.starts[at] = start;
    this.nested[at] = 0;
    this.owners[at] = owner;
    this.calls[at] = call;
  }

  /** Where the innermost phase of the id stands; -1: none of it is open. What stands above has lost its end. */
  find(phase: number): number {
    for (let at = this.depth - 1; at >= 0; at--) if (this.phases[at] === phase) return at;
    return -1;
  }

  /** Removes what the test tells, keeping the order of the rest; returns how many. */
  remove(gone: (owner: Owner) => boolean): number {
    let kept = 0;
    for (let at = 0; at < this.depth; at++) {
      if (gone(this.owners[at] as Owner)) continue;
      this.phases[kept] = this.phases[at] as number;
      this.starts[kept] = this.starts[at] as number;
      this.nested[kept] = this.nested[at] as number;
      this.owners[kept] = this.owners[at] as Owner;
      this.calls[kept] = this.calls[at];
      kept++;
    }
    const removed = this.depth - kept;
    this.depth = kept;
    return removed;
  }
}
