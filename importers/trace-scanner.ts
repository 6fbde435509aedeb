import { PicketError } from '../protocol/errors.js';
import { MAX_JSON_VALUE_BYTES } from '../protocol/limits.js';

/** What a trace file holds, as it is met. Offsets are bytes of the unpacked file. */
export interface TraceHandler {
  /** One element of the list of events. */
  event(text: string, offset: number): void;
  /** One other field of the object at the top; fields that are not wanted are passed over. */
  field(name: string, text: string, offset: number): void;
}

const QUOTE = 34;
const COMMA = 44;
const COLON = 58;
const OPEN_LIST = 91;
const BACKSLASH = 92;
const CLOSE_LIST = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;
const BYTE_ORDER_MARK: ReadonlySet<number> = new Set([0xef, 0xbb, 0xbf]);

/** What the next byte may be. A Chrome trace is a list of events, or an object with that list as `traceEvents`. */
type State = 'top' | 'key' | 'colon' | 'value' | 'after-value' | 'event' | 'after-event' | 'inside' | 'end';

/**
 * Cuts the events out of a trace of any size without parsing the whole: beyond 512 MB no JavaScript string can hold it.
 * Checks the structure between the values; the values themselves are for JSON.parse. Throws PicketError without a file.
 */
export class TraceScanner {
  readonly #wanted: ReadonlySet<string>;
  readonly #handler: TraceHandler;
  #buffer: Buffer = Buffer.alloc(0);
  #at = 0;
  /** Offset in the file of the buffer's first byte. */
  #offset = 0;
  #state: State = 'top';
  #list = false;
  #sawEvents = false;
  #key = '';
  /** The value being read: where it begins, what follows it, and how deep within it the scan is. */
  #start = 0;
  #next: State = 'end';
  #depth = 0;
  #inString = false;

  constructor(wanted: ReadonlySet<string>, handler: TraceHandler) {
    this.#wanted = wanted;
    this.#handler = handler;
  }

  push(chunk: Buffer): void {
    this.#buffer = this.#buffer.length > 0 ? Buffer.concat([this.#buffer, chunk]) : chunk;
    while (this.#at < this.#buffer.length) {
      if (this.#state === 'inside') {
        if (!this.#scanValue()) break;
      } else this.#between(this.#buffer[this.#at] as number);
    }
    const kept = this.#state === 'inside' ? this.#start : this.#at;
    if (this.#buffer.length - kept > MAX_JSON_VALUE_BYTES) throw this.#tooLarge();
    this.#buffer = this.#buffer.subarray(kept);
    this.#offset += kept;
    this.#at -= kept;
    this.#start = 0;
  }

  /** Call after the last chunk. */
  end(): void {
    // The list form may lack its closing bracket: programs append events until they die.
    const complete =
      this.#state === 'end' || (this.#list && (this.#state === 'event' || this.#state === 'after-event'));
    if (!complete) throw this.#error('the JSON is cut short', 'copy the file again');
    if (!this.#sawEvents)
      throw this.#error('there is no "traceEvents" list', 'give a trace of the PyTorch profiler, or rows as .jsonl');
  }

  #between(byte: number): void {
    const blank = byte === 32 || (byte >= 9 && byte <= 13) || (this.#state === 'top' && BYTE_ORDER_MARK.has(byte));
    if (!blank) this.#state = this.#follow(byte);
    if (this.#state !== 'inside') this.#at++;
  }

  /** The state after a byte between values; with 'inside' a value begins at that byte. */
  #follow(byte: number): State {
    const afterEvents = this.#list ? 'end' : 'after-value';
    switch (this.#state) {
      case 'top':
        if (byte !== OPEN_LIST && byte !== OPEN_OBJECT) throw this.#unexpected('"{" or "["');
        this.#list = this.#sawEvents = byte === OPEN_LIST;
        return this.#list ? 'event' : 'key';
      case 'key':
        if (byte === CLOSE_OBJECT) return 'end';
        if (byte !== QUOTE) throw this.#unexpected('a field name');
        return this.#enter('colon');
      case 'colon':
        if (byte !== COLON) throw this.#unexpected('":"');
        return 'value';
      case 'value':
        if (this.#key !== 'traceEvents' || byte !== OPEN_LIST) return this.#enter('after-value');
        this.#sawEvents = true;
        return 'event';
      case 'after-value':
        if (byte === COMMA) return 'key';
        if (byte === CLOSE_OBJECT) return 'end';
        throw this.#unexpected('"," or "}"');
      case 'event':
        return byte === CLOSE_LIST ? afterEvents : this.#enter('after-event');
      case 'after-event':
        if (byte === COMMA) return 'event';
        if (byte === CLOSE_LIST) return afterEvents;
        throw this.#unexpected('"," or "]"');
      default:
        throw this.#unexpected('the end of the file');
    }
  }

  #enter(next: State): State {
    this.#start = this.#at;
    this.#next = next;
    this.#depth = 0;
    this.#inString = false;
    return 'inside';
  }

  /** Goes to the end of the value; false: it goes on in the next chunk. */
  #scanValue(): boolean {
    const buffer = this.#buffer;
    const { length } = buffer;
    let at = this.#at;
    let depth = this.#depth;
    let inString = this.#inString;
    let end = -1;
    while (at < length) {
      const byte = buffer[at] as number;
      if (inString) {
        if (byte === BACKSLASH) {
          // An escape that is split by the end of the chunk is read again with the next.
          if (at + 1 === length) break;
          at++;
        } else if (byte === QUOTE) {
          inString = false;
          if (depth === 0) end = at + 1;
        }
      } else if (byte === QUOTE) inString = true;
      else if (byte === OPEN_OBJECT || byte === OPEN_LIST) depth++;
      else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) {
        // A number or literal ends before the bracket that is not its own.
        if (depth === 0) end = at;
        else if (--depth === 0) end = at + 1;
      } else if (depth === 0 && (byte <= 32 || byte === COMMA || byte === COLON)) end = at;
      if (end >= 0) break;
      at++;
    }
    this.#depth = depth;
    this.#inString = inString;
    this.#at = end < 0 ? at : end;
    if (end < 0) return false;
    this.#leave(end);
    return true;
  }

  #leave(end: number): void {
    if (end === this.#start) throw this.#unexpected('a value');
    const text = () => this.#buffer.toString('utf8', this.#start, end);
    if (this.#next === 'after-event') this.#handler.event(text(), this.#offset + this.#start);
    else if (this.#next === 'colon') this.#key = JSON.parse(text());
    else if (this.#wanted.has(this.#key)) this.#handler.field(this.#key, text(), this.#offset + this.#start);
    this.#state = this.#next;
  }

  #unexpected(expected: string): PicketError {
    const found = this.#buffer.toString('latin1', this.#at, this.#at + 12).replace(/[^ -~]/g, '.');
    return this.#error(`expected ${expected}, found "${found}"`);
  }

  #error(problem: string, remedy?: string): PicketError {
    return new PicketError('bad_input', problem, { offset: this.#offset + this.#at, remedy });
  }

  #tooLarge(): PicketError {
    const field = this.#next === 'after-event' ? `traceEvents[].${lastKey(this.#buffer, this.#start)}` : this.#key;
    return new PicketError('too_large', `one value exceeds ${MAX_JSON_VALUE_BYTES} bytes`, {
      offset: this.#offset + this.#start,
      field,
    });
  }
}

/** The field at the top of an unfinished object that has grown too large. */
function lastKey(buffer: Buffer, start: number): string {
  let depth = 0;
  let key = '';
  for (let at = start; at < buffer.length; at++) {
    const byte = buffer[at];
    if (byte === OPEN_OBJECT || byte === OPEN_LIST) depth++;
    else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) depth--;
    if (byte !== QUOTE) continue;
    const from = at + 1;
    do at = buffer.indexOf(QUOTE, at + 1);
    while (at > 0 && buffer[at - 1] === BACKSLASH);
    if (at < 0) return key;
    if (depth === 1 && buffer[at + 1] === COLON) key = buffer.toString('utf8', from, at);
  }
  return key;
}
