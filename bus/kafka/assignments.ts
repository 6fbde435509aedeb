import type { TopicPartition } from '../bus.js';

/** A partition while it is ours. */
export interface Assignment {
  readonly partition: TopicPartition;
  /** The handler has been told of it. */
  told: boolean;
  /** Reading may begin: the start offset is known. */
  ready: boolean;
  /** The next offset to deliver. */
  position: bigint;
  /** The client said that it could not read on where it was, and goes on elsewhere. */
  reset: boolean;
  /** One past the last record of the log, as last heard. */
  end: bigint;
}

export interface Change {
  readonly gone: Assignment[];
  readonly come: Assignment[];
  readonly kept: Assignment[];
}

export const nameOf = ({ topic, partition }: TopicPartition): string => `${topic}/${partition}`;

const newAssignment = (partition: TopicPartition): Assignment => ({
  partition,
  told: false,
  ready: false,
  position: 0n,
  reset: false,
  end: 0n,
});

/**
 * The partitions of a consumer from rebalance to rebalance. The client deals all of them anew each time and says only what
 * is ours now; what came, went and stayed is found by comparing.
 */
export class Assignments {
  #current = new Map<string, Assignment>();

  get all(): Assignment[] {
    return [...this.#current.values()];
  }

  get(topic: string, partition: number): Assignment | undefined {
    return this.#current.get(nameOf({ topic, partition }));
  }

  /** Is this still the one that counts, or has its partition gone, and perhaps come again, since? */
  isCurrent(assignment: Assignment): boolean {
    return this.#current.get(nameOf(assignment.partition)) === assignment;
  }

  /**
   * Takes over what a rebalance dealt. `unbroken` is false where another consumer may have had our partitions since the
   * last one: then nothing is kept and all of it comes anew.
   */
  replace(dealt: readonly TopicPartition[], unbroken: boolean): Change {
    const before = this.#current;
    this.#current = new Map();
    const change: Change = { gone: [], come: [], kept: [] };
    for (const partition of dealt) {
      const known = unbroken ? before.get(nameOf(partition)) : undefined;
      const assignment = known ?? newAssignment(partition);
      (known ? change.kept : change.come).push(assignment);
      this.#current.set(nameOf(partition), assignment);
    }
    for (const assignment of before.values()) if (!this.isCurrent(assignment)) change.gone.push(assignment);
    return change;
  }

  clear(): void {
    this.#current.clear();
  }
}
