/** A begin or end of a duration event. */
export interface DurationMark {
  readonly begins: boolean;
  readonly ts: bigint;
  /** An end may leave it out. */
  readonly name: string | undefined;
  readonly offset: number;
}

export type Unpaired = 'end_without_begin' | 'never_ended';

/**
 * Pairs the begin and end events of one thread, which come in the order of their time stamps. Of those with the same
 * stamp, ends of what began earlier come before begins, whichever is written first.
 */
export class DurationPairs<M extends DurationMark> {
  readonly #open: M[] = [];
  /** Marks of one stamp, until a later one shows that no more will come. */
  #together: M[] = [];
  readonly #paired: (begin: M, durNs: bigint) => void;
  readonly #unpaired: (mark: M, reason: Unpaired) => void;

  constructor(paired: (begin: M, durNs: bigint) => void, unpaired: (mark: M, reason: Unpaired) => void) {
    this.#paired = paired;
    this.#unpaired = unpaired;
  }

  add(mark: M): void {
    if (this.#together[0] !== undefined && this.#together[0].ts !== mark.ts) this.#settle();
    this.#together.push(mark);
  }

  /** Call after the last mark. */
  end(): void {
    this.#settle();
    for (const mark of this.#open) this.#unpaired(mark, 'never_ended');
  }

  #settle(): void {
    const marks = this.#together;
    this.#together = [];
    const later = marks.filter((mark) => {
      const open = this.#open.at(-1);
      const endsEarlier = !mark.begins && open !== undefined && (mark.name === undefined || mark.name === open.name);
      if (endsEarlier) this.#close(mark);
      return !endsEarlier;
    });
    for (const mark of later) {
      if (mark.begins) this.#open.push(mark);
      else this.#close(mark);
    }
  }

  #close(end: M): void {
    const begin = this.#open.pop();
    if (begin) this.#paired(begin, end.ts - begin.ts);
    else this.#unpaired(end, 'end_without_begin');
  }
}
