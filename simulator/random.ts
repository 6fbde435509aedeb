/** Seeded random numbers (sfc32): the same seed gives the same run on every machine. */
export class Random {
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;
  #spare = Number.NaN;

  private constructor(a: number, b: number, c: number) {
    this.#a = a;
    this.#b = b;
    this.#c = c;
    for (let i = 0; i < 15; i++) this.#word();
  }

  /**
   * An independent stream for one purpose. Every rank and every source of noise has its own, so that a run with a fault
   * draws the same noise as the run without it.
   */
  static stream(seed: number, ...labels: readonly (string | number)[]): Random {
    const text = [seed, ...labels].join('/');
    return new Random(hash(text, 0x811c9dc5), hash(text, 0x9e3779b9), hash(text, 0x85ebca6b));
  }

  /** Uniform in [0, 1). */
  uniform(): number {
    return (this.#word() >>> 0) / 4294967296;
  }

  /** Uniform integer in [0, n). */
  below(n: number): number {
    return Math.floor(this.uniform() * n);
  }

  /** Standard normal, by Marsaglia's polar method. */
  normal(): number {
    if (!Number.isNaN(this.#spare)) {
      const spare = this.#spare;
      this.#spare = Number.NaN;
      return spare;
    }
    for (;;) {
      const x = 2 * this.uniform() - 1;
      const y = 2 * this.uniform() - 1;
      const square = x * x + y * y;
      if (square >= 1 || square === 0) continue;
      const scale = Math.sqrt((-2 * Math.log(square)) / square);
      this.#spare = y * scale;
      return x * scale;
    }
  }

  #word(): number {
    const word = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + word) | 0;
    return word;
  }
}

/** FNV-1a with a final mix, so that labels that differ in one digit give unrelated streams. */
function hash(text: string, basis: number): number {
  let h = basis;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  h = Math.imul(h ^ (h >>> 16), 0x21f0aaad);
  h = Math.imul(h ^ (h >>> 15), 0x735a2d97);
  return h ^ (h >>> 15);
}
