import { randomUUID } from 'node:crypto';
import { mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { open, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { PicketError } from '../../protocol/errors.js';
import type { TopicPartition } from '../bus.js';
import { FileLock } from './file-lock.js';
import { syncDir } from './segments.js';

/**
 * One consumer of a group, with those in other processes. A member shows that it lives by holding a lock on a file of its
 * own; each computes from the same list the same shares, and takes a partition only once it holds the partition's lock, so
 * that two never read one. Members of a group are expected to ask for the same topics.
 */
export class GroupMember {
  readonly #dir: string;
  readonly #memberPath: string;
  readonly #alive: FileLock;
  readonly #held = new Map<string, FileLock>();

  private constructor(dir: string, memberPath: string, alive: FileLock) {
    this.#dir = dir;
    this.#memberPath = memberPath;
    this.#alive = alive;
  }

  static join(dir: string): GroupMember {
    mkdirSync(join(dir, MEMBERS), { recursive: true });
    const id = randomUUID();
    const joining = join(dir, MEMBERS, `${id}.joining`);
    const alive = FileLock.tryAcquire(joining);
    if (!alive) throw new Error(`${joining} is locked by another`);
    // Locked first and named second: nobody ever sees this member's file without its lock.
    const path = join(dir, MEMBERS, `${id}${MEMBER_SUFFIX}`);
    renameSync(joining, path);
    return new GroupMember(dir, path, alive);
  }

  /** This member's part of the partitions, as the group is now; those of one number go to one member, whatever the topic. */
  share(partitions: readonly TopicPartition[]): TopicPartition[] {
    const members = this.#livingMembers();
    const mine = members.indexOf(this.#memberPath);
    return partitions.filter(({ partition }) => partition % members.length === mine);
  }

  /** False while its last owner has not let go of it. */
  tryTake(partition: TopicPartition): boolean {
    const lock = FileLock.tryAcquire(join(this.#dir, `${nameOf(partition)}.lock`));
    if (lock) this.#held.set(nameOf(partition), lock);
    return lock !== undefined;
  }

  giveUp(partition: TopicPartition): void {
    this.#held.get(nameOf(partition))?.close();
    this.#held.delete(nameOf(partition));
  }

  leave(): void {
    for (const lock of this.#held.values()) lock.close();
    this.#held.clear();
    rmSync(this.#memberPath, { force: true });
    this.#alive.close();
  }

  /** Paths of the members that live, in an order that all agree on; the files of dead ones are removed. */
  #livingMembers(): string[] {
    const names = readdirSync(join(this.#dir, MEMBERS)).filter((name) => name.endsWith(MEMBER_SUFFIX));
    const paths = names.sort().map((name) => join(this.#dir, MEMBERS, name));
    return paths.filter((path) => path === this.#memberPath || isAlive(path));
  }
}

const MEMBERS = 'members';
const MEMBER_SUFFIX = '.member';

const nameOf = ({ topic, partition }: TopicPartition): string => `${topic}-${partition}`;

function isAlive(path: string): boolean {
  const lock = FileLock.tryAcquire(path);
  if (!lock) return true;
  rmSync(path, { force: true });
  lock.close();
  return false;
}

/** The group's committed offset, or undefined. Throws `bus_unavailable` for a file that holds none. */
export async function committedOffset(dir: string, partition: TopicPartition): Promise<bigint | undefined> {
  const path = join(dir, `${nameOf(partition)}.offset`);
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  if (!/^\d+\n$/.test(text)) {
    const remedy = 'remove the file to start at the earliest record';
    throw new PicketError('bus_unavailable', 'not a committed offset', { file: path, remedy });
  }
  return BigInt(text);
}

/** Replaces the committed offset as a whole: a crash leaves the old one or the new one. */
export async function commitOffset(dir: string, partition: TopicPartition, next: bigint, sync: boolean): Promise<void> {
  const path = join(dir, `${nameOf(partition)}.offset`);
  const file = await open(`${path}.new`, 'w');
  try {
    await file.writeFile(`${next}\n`);
    if (sync) await file.sync();
  } finally {
    await file.close();
  }
  await rename(`${path}.new`, path);
  if (sync) await syncDir(dir);
}
