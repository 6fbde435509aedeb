type Values = Float64Array | BigInt64Array | Int32Array | Uint8Array;

/** A typed array that grows: how millions of events are held at a few bytes each. */
export class GrowingColumn<A extends Values> {
  readonly #make: (length: number) => A;
  #values: A;
  length = 0;

  constructor(make: (length: number) => A) {
    this.#make = make;
    this.#values = make(1024);
  }

  push(value: A[number]): void {
    if (this.length === this.#values.length) {
      const larger = this.#make(2 * this.length);
      larger.set(this.#values as never);
      this.#values = larger;
    }
    this.#values[this.length++] = value;
  }

  at(i: number): A[number] {
    return this.#values[i] as A[number];
  }
}

export const growingFloat64 = () => new GrowingColumn((length) => new Float64Array(length));
export const growingInt64 = () => new GrowingColumn((length) => new BigInt64Array(length));
export const growingUint8 = () => new GrowingColumn((length) => new Uint8Array(length));
