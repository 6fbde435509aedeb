/**
 * What was read from bytes, for when the same bytes come again: the longest unused goes first. The key is the bytes
 * themselves, so that a hit can never belong to others.
 */
export class ArrowCache<Value> {
  readonly #values = new Map<string, Value>();
  readonly #maxBytes: number;
  readonly #maxEntryBytes: number;
  #bytes = 0;

  /** `maxBytes` bounds the bytes of all entries together; what is read from more than `maxEntryBytes` is not kept. */
  constructor(maxBytes: number, maxEntryBytes: number) {
    this.#maxBytes = maxBytes;
    this.#maxEntryBytes = maxEntryBytes;
  }

  /** The value of these bytes; `read` makes it where it is not known, and must not hold on to them. */
  get(bytes: Uint8Array, read: () => Value): Value {
    if (bytes.length > this.#maxEntryBytes) return read();
    const key = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
    const known = this.#values.get(key);
    const value = known ?? read();
    if (known === undefined) this.#bytes += key.length;
    else this.#values.delete(key);
    this.#values.set(key, value);
    for (const oldest of this.#values.keys()) {
      if (this.#bytes <= this.#maxBytes) break;
      this.#values.delete(oldest);
      this.#bytes -= oldest.length;
    }
    return value;
  }
}
