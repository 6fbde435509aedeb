/** Seeded generator of numbers in [0, 1) (mulberry32): training must give the same file again. */
export function seededRandom(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** Uniform sample of a stream of unknown length (algorithm R), for as many items as fit. */
export class Reservoir<Item> {
  readonly items: Item[] = [];
  #seen = 0;
  readonly #capacity: number;
  readonly #random: () => number;

  constructor(capacity: number, random: () => number) {
    this.#capacity = capacity;
    this.#random = random;
  }

  push(item: Item): void {
    this.#seen++;
    if (this.items.length < this.#capacity) this.items.push(item);
    else {
      const at = Math.floor(this.#random() * this.#seen);
      if (at < this.#capacity) this.items[at] = item;
    }
  }
}
