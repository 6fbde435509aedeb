import type { TestContext } from 'node:test';
import type { BusRecord, ConsumerHandler, TopicPartition } from '../../bus/bus.js';

export const nameOf = ({ topic, partition }: TopicPartition): string => `${topic}/${partition}`;

/** A consumer's handler that remembers what it was told; a test overrides the calls it is about. */
export class Recorder implements ConsumerHandler {
  readonly assignedTo: string[] = [];
  readonly revokedFrom: string[] = [];
  readonly records_: { partition: string; record: BusRecord }[] = [];
  readonly owned = new Set<string>();
  readonly #watchers = new Set<() => void>();
  readonly #overrides: Partial<ConsumerHandler>;

  constructor(overrides: Partial<ConsumerHandler> = {}) {
    this.#overrides = overrides;
  }

  async assigned(partition: TopicPartition): Promise<bigint | undefined> {
    this.assignedTo.push(nameOf(partition));
    this.owned.add(nameOf(partition));
    this.#changed();
    return this.#overrides.assigned?.(partition);
  }

  async revoked(partition: TopicPartition): Promise<void> {
    this.revokedFrom.push(nameOf(partition));
    this.owned.delete(nameOf(partition));
    await this.#overrides.revoked?.(partition);
    this.#changed();
  }

  async records(partition: TopicPartition, records: readonly BusRecord[]): Promise<void> {
    if (!this.owned.has(nameOf(partition))) throw new Error(`records of ${nameOf(partition)}, which is not ours`);
    for (const record of records) this.records_.push({ partition: nameOf(partition), record });
    this.#changed();
    await this.#overrides.records?.(partition, records);
    this.#changed();
  }

  get texts(): string[] {
    return this.records_.map(({ record }) => textOf(record));
  }

  get offsets(): bigint[] {
    return this.records_.map(({ record }) => record.offset);
  }

  /** Resolves once the condition holds, looked at after each call. */
  until(condition: (recorder: this) => boolean, what: string): Promise<void> {
    return within(
      new Promise((resolve) => {
        const look = () => {
          if (!condition(this)) return;
          this.#watchers.delete(look);
          resolve();
        };
        this.#watchers.add(look);
        look();
      }),
      what,
    );
  }

  #changed(): void {
    for (const watcher of [...this.#watchers]) watcher();
  }
}

export const textOf = (record: BusRecord): string => Buffer.from(record.value).toString();

const DEADLINE_MS = 240_000;

/** The promise, or an error that names what was waited for. */
export async function within<T>(promise: Promise<T>, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited ${DEADLINE_MS} ms for ${what}`)), DEADLINE_MS);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Resolves once a condition that tells of itself in no event holds. */
export async function eventually(condition: () => boolean, what: string): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const held = new Promise<void>((resolve) => {
    timer = setInterval(() => condition() && resolve(), 5);
  });
  try {
    await within(held, what);
  } finally {
    clearInterval(timer);
  }
}

/** A promise and the call that resolves it; a test that fails opens it too, so that nothing hangs. */
export function gate(t: TestContext): { opened: Promise<void>; open: () => void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  t.after(open);
  return { opened, open };
}
