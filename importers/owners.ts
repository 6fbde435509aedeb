import { PicketError } from '../protocol/errors.js';
import type { SourceBatch } from './importer.js';

/** Sees that no rank of a job comes from two files, and that no file without a rank is taken for one among others. */
export class RankOwners {
  readonly #runs = new Map<string, Run>();

  check({ batch, owner, rankAssumed }: SourceBatch): void {
    if (batch.length === 0) return;
    const { job, run } = batch.meta;
    const key = JSON.stringify([job, run]);
    let known = this.#runs.get(key);
    if (!known) this.#runs.set(key, (known = { ownerOfRank: new Map(), owners: new Map() }));
    known.owners.set(owner, rankAssumed ?? false);
    checkRanksKnown(job, known);
    let last = -1;
    for (const rank of batch.columns.rank) {
      if (rank === last) continue;
      last = rank;
      const other = known.ownerOfRank.get(rank) ?? owner;
      if (other !== owner) throw twice(rank, job, other, owner);
      known.ownerOfRank.set(rank, owner);
    }
  }
}

interface Run {
  readonly ownerOfRank: Map<number, string>;
  /** Every owner, and whether its rank had to be assumed. */
  readonly owners: Map<string, boolean>;
}

function checkRanksKnown(job: string, { owners }: Run): void {
  if (owners.size < 2) return;
  const [unknown] = [...owners].filter(([, assumed]) => assumed).map(([owner]) => owner);
  if (unknown === undefined) return;
  throw new PicketError('bad_input', `does not say which rank of job "${job}" it is, and is one of several files`, {
    file: unknown,
    field: 'distributedInfo.rank',
    remedy: 'add the rank to the file name (trace.rank-3.json), or import the files one by one',
  });
}

function twice(rank: number, job: string, first: string, second: string): PicketError {
  return new PicketError('conflict', `rank ${rank} of job "${job}" is also in ${first}`, {
    file: second,
    remedy: 'leave one out, give each a job or run of its own, or analyze them one by one under a --job each',
  });
}
