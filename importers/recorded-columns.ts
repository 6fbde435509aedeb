import { Int64Column } from '../protocol/int64.js';
import type { NameColumn } from '../protocol/phase-batch.js';
import type { ParquetFile, RowRange } from './parquet.js';

/** Context that a decoded token attends to: the recordings hold only how many requests decode. */
const CONTEXT_PER_DECODE = 1024;
/** Impossible in every column, so that the row is dropped and counted; cutting bits off would make it another value. */
const NOT_AN_INT32 = -2;

/** The columns of a recording by the names it uses, in the types of the wire. */
export class RecordedColumns {
  readonly #file: ParquetFile;
  readonly #range: RowRange;

  constructor(file: ParquetFile, range: RowRange) {
    this.#file = file;
    this.#range = range;
  }

  async int32(name: string, absent: number): Promise<Int32Array> {
    if (!this.#file.columns.has(name)) return new Int32Array(this.#range.to - this.#range.from).fill(absent);
    const values = await this.#file.numbers(name, this.#range, absent);
    return Int32Array.from(values, (value) => (value === (value | 0) ? value : NOT_AN_INT32));
  }

  async int64(name: string): Promise<Int64Column> {
    if (this.#file.columns.has(name)) return this.#file.int64(name, this.#range, 0n);
    return Int64Column.ofLength(this.#range.to - this.#range.from);
  }

  /** Tokens of a serving step: each decode is one, and one request at most prefills. */
  async servingWork() {
    const prefill_tokens = await this.int32('prefill_tokens', 0);
    const decode_tokens = await this.int32('decode_tokens', 0);
    const context_tokens = Int64Column.ofLength(decode_tokens.length);
    for (let i = 0; i < decode_tokens.length; i++)
      context_tokens.set(i, (decode_tokens[i] as number) * CONTEXT_PER_DECODE);
    return {
      prefill_tokens,
      decode_tokens,
      context_tokens,
      tokens: decode_tokens.map((decode, i) => decode + (prefill_tokens[i] as number)),
      batch: decode_tokens.map((decode, i) => decode + ((prefill_tokens[i] as number) > 0 ? 1 : 0)),
    };
  }

  async requests(): Promise<NameColumn> {
    if (!this.#file.columns.has('request'))
      return { indices: new Int32Array(this.#range.to - this.#range.from), values: [''] };
    const { indices, values } = await this.#file.names('request', this.#range);
    return { indices, values: values.map((request) => (request === '-1' ? '' : request)) };
  }
}
