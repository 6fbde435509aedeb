/**
 * A column of int64 values read as 32-bit pairs: BigInt arithmetic costs three times as much a row, and a double alone
 * loses nanoseconds of the epoch. `number` is exact below 2^53, `since` is exact while the difference is.
 * Words are little-endian, low word first, as on the wire.
 */
export class Int64Column {
  readonly words: Int32Array;

  constructor(words: Int32Array) {
    this.words = words;
  }

  static ofLength(length: number): Int64Column {
    return new Int64Column(new Int32Array(2 * length));
  }

  static over(values: BigInt64Array): Int64Column {
    return new Int64Column(new Int32Array(values.buffer, values.byteOffset, 2 * values.length));
  }

  get length(): number {
    return this.words.length >>> 1;
  }

  /** The value as a double: exact for magnitudes up to 2^53. */
  number(i: number): number {
    return (this.words[2 * i + 1] as number) * TWO_32 + ((this.words[2 * i] as number) >>> 0);
  }

  /** value - base as a double, exact while the difference is below 2^53 (104 days of nanoseconds). */
  since(i: number, base: Int64): number {
    return (
      ((this.words[2 * i + 1] as number) - base.high) * TWO_32 + (((this.words[2 * i] as number) >>> 0) - base.low)
    );
  }

  bigint(i: number): bigint {
    return (BigInt(this.words[2 * i + 1] as number) << 32n) | BigInt((this.words[2 * i] as number) >>> 0);
  }

  set(i: number, value: bigint | number): void {
    if (typeof value === 'bigint') {
      this.words[2 * i] = Number(BigInt.asIntN(32, value));
      this.words[2 * i + 1] = Number(BigInt.asIntN(32, value >> 32n));
    } else {
      const high = Math.floor(value / TWO_32);
      this.words[2 * i] = (value - high * TWO_32) | 0;
      this.words[2 * i + 1] = high;
    }
  }

  asBigInt64Array(): BigInt64Array {
    return new BigInt64Array(this.words.buffer, this.words.byteOffset, this.length);
  }
}

const TWO_32 = 4294967296;

/** An int64 as the pair the arithmetic above needs: `high` signed, `low` unsigned. */
export interface Int64 {
  readonly high: number;
  readonly low: number;
}

export const int64Of = (value: bigint): Int64 => ({
  high: Number(value >> 32n),
  low: Number(value & 0xffffffffn),
});

export const toBigInt = (value: Int64): bigint => (BigInt(value.high) << 32n) | BigInt(value.low);
