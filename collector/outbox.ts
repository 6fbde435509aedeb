import { PicketError } from '../protocol/errors.js';
import { type Message, type Sink, splitMessage } from './message.js';
import type { Spool } from './spool.js';

export interface OutboxDeps {
  readonly sink: Sink;
  readonly spool: Spool;
  /** Waits so long, or until `wake` resolves. */
  readonly wait: (ms: number, wake: Promise<void>) => Promise<void>;
  readonly onSent: (messages: number, rows: number) => void;
  /** @param reason a constant of the code */
  readonly onDropped: (reason: 'too_large' | 'spool_failed', rows: number) => void;
  readonly log: (level: 'info' | 'warn' | 'error', message: string) => void;
}

/** More waits on disk, not in memory. */
const MEMORY_BYTES = 8 * 1024 * 1024;
const SEND_BYTES = 4 * 1024 * 1024;
const FIRST_RETRY_MS = 250;
const MAX_RETRY_MS = 15_000;

/**
 * Sends messages in their order, for as long as it takes: from memory while the sink keeps up, through the spool once it
 * does not. What is in memory is always older than what is in the spool.
 */
export class Outbox {
  readonly #deps: OutboxDeps;
  #memory: Message[] = [];
  #memoryBytes = 0;
  #failures = 0;
  #closing = false;
  #wake = () => {};
  #news: Promise<void> = Promise.resolve();
  #close = () => {};
  readonly #closed = new Promise<void>((resolve) => {
    this.#close = resolve;
  });
  readonly #running: Promise<void>;
  /** Why the sink does not take messages now. */
  failure: Error | undefined;

  constructor(deps: OutboxDeps) {
    this.#deps = deps;
    this.#renew();
    this.#running = this.#run();
  }

  /** Nothing waits. */
  get empty(): boolean {
    return this.#memory.length === 0 && this.#deps.spool.empty;
  }

  push(messages: readonly Message[]): void {
    const bytes = bytesIn(messages);
    const { spool } = this.#deps;
    if (spool.empty && !this.failure && this.#memoryBytes + bytes <= MEMORY_BYTES) {
      this.#memory.push(...messages);
      this.#memoryBytes += bytes;
    } else this.#spooled(() => spool.append(messages), messages);
    this.#wake();
  }

  /** Sends what waits for so long at most; the rest goes to disk, for the next process. */
  async close(deadlineMs: number): Promise<void> {
    const deadline = new Promise<void>((resolve) => setTimeout(resolve, deadlineMs).unref());
    this.#closing = true;
    this.#wake();
    this.#close();
    await Promise.race([this.#running, deadline]);
    const rest = this.#memory;
    this.#memory = [];
    if (rest.length > 0) this.#spooled(() => this.#deps.spool.prepend(rest), rest);
  }

  async #run(): Promise<void> {
    while (!(this.#closing && (this.empty || this.failure))) {
      if (this.empty) {
        await this.#deps.wait(MAX_RETRY_MS, this.#news);
        this.#renew();
      } else if (this.#memory.length > 0) await this.#sendMemory();
      else await this.#sendSpool();
    }
  }

  async #sendMemory(): Promise<void> {
    const batch = takeBytes(this.#memory, SEND_BYTES);
    if (await this.#send(batch)) {
      this.#memory.splice(0, batch.length);
      this.#memoryBytes -= bytesIn(batch);
      return;
    }
    const all = this.#memory;
    this.#memory = [];
    this.#memoryBytes = 0;
    this.#spooled(() => this.#deps.spool.prepend(all), all);
    await this.#backOff();
  }

  async #sendSpool(): Promise<void> {
    const messages = this.#deps.spool.first();
    while (messages.length > 0) {
      const batch = takeBytes(messages, SEND_BYTES);
      if (await this.#send(batch)) messages.splice(0, batch.length);
      else if (this.#closing) return;
      else await this.#backOff();
    }
    this.#deps.spool.removeFirst();
  }

  /** True once they are sent, or refused for good. */
  async #send(messages: readonly Message[]): Promise<boolean> {
    const { sink, log, onSent } = this.#deps;
    try {
      await sink.send(messages);
    } catch (error) {
      if (error instanceof PicketError && error.code === 'too_large') return this.#sendSmaller(messages);
      if (!this.failure) log('warn', `${sink.name} takes no messages: ${(error as Error).message}; they go to disk`);
      this.failure = error as Error;
      return false;
    }
    if (this.failure) log('info', `${sink.name} takes messages again`);
    this.failure = undefined;
    this.#failures = 0;
    onSent(messages.length, rowsIn(messages));
    return true;
  }

  /** The sink allows less than we do: one by one, then in halves, down to a row, which is dropped. */
  async #sendSmaller(messages: readonly Message[]): Promise<boolean> {
    const [only] = messages as readonly [Message];
    if (messages.length > 1) {
      for (const message of messages) if (!(await this.#send([message]))) return false;
      return true;
    }
    const { messages: smaller, refused } = splitMessage(only);
    if (refused > 0) this.#deps.onDropped('too_large', refused);
    for (const message of smaller) if (!(await this.#send([message]))) return false;
    return true;
  }

  async #backOff(): Promise<void> {
    await this.#deps.wait(Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** this.#failures++), this.#closed);
  }

  #renew(): void {
    this.#news = new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #spooled(write: () => void, messages: readonly Message[]): void {
    try {
      write();
    } catch (error) {
      this.#deps.onDropped('spool_failed', rowsIn(messages));
      this.#deps.log('error', `messages are lost, the spool cannot be written: ${(error as Error).message}`);
    }
  }
}

const rowsIn = (messages: readonly Message[]): number => messages.reduce((sum, { rows }) => sum + rows, 0);
const bytesIn = (messages: readonly Message[]): number => messages.reduce((sum, { value }) => sum + value.length, 0);

/** The first messages, at least one, of no more than so many bytes. */
function takeBytes(messages: readonly Message[], bytes: number): Message[] {
  let left = bytes;
  let count = 0;
  for (const { value } of messages) {
    if (count > 0 && value.length > left) break;
    left -= value.length;
    count++;
  }
  return messages.slice(0, count);
}
