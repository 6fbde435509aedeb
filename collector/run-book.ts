import * as z from 'zod';

/** What is remembered across restarts of the collector. */
export const RunBookState = z.object({
  jobs: z.record(
    z.string(),
    z.object({
      attempt: z.int(),
      /** By rank: its newest segments and the attempts that they belong to. */
      ranks: z.record(z.string(), z.record(z.string(), z.int())),
      seen_ms: z.number(),
    }),
  ),
  /** Segments whose step numbers fell back, and how often. */
  rewinds: z.record(z.string(), z.object({ count: z.int(), seen_ms: z.number() })),
});
export type RunBookState = z.infer<typeof RunBookState>;

/** Jobs and segments not seen for so long are forgotten. */
const FORGET_MS = 30 * 86_400_000;
/** Of one rank: those whose files may still be there. */
const KEPT_SEGMENTS = 8;

/**
 * Which run a segment belongs to. Engines that count their attempts say so themselves. For others an attempt begins when
 * a rank that is already in the current one comes with a new process; the other ranks join it as they come.
 */
export class RunBook {
  readonly state: RunBookState;
  /** The state has changed since it was last stored. */
  dirty = false;

  constructor(state: RunBookState = { jobs: {}, rewinds: {} }) {
    this.state = state;
  }

  /** The attempt of a rank's segment. Give new segments in the order in which they were created. */
  attemptOf(job: string, rank: number, segment: string, nowMs: number): string {
    const book = (this.state.jobs[job] ??= { attempt: 1, ranks: {}, seen_ms: nowMs });
    book.seen_ms = nowMs;
    this.dirty = true;
    const attempts = (book.ranks[rank] ??= {});
    if (attempts[segment] === undefined) {
      if (Object.values(attempts).includes(book.attempt)) book.attempt++;
      attempts[segment] = book.attempt;
      for (const old of Object.keys(attempts).slice(0, -KEPT_SEGMENTS)) delete attempts[old];
    }
    return String(attempts[segment]);
  }

  rewindsOf(segment: string): number {
    return this.state.rewinds[segment]?.count ?? 0;
  }

  /** The step numbers of a segment have fallen back `count` times in all. */
  noteRewinds(segment: string, count: number, nowMs: number): void {
    if (count === this.rewindsOf(segment)) return;
    this.state.rewinds[segment] = { count, seen_ms: nowMs };
    this.dirty = true;
  }

  /** @param live jobs and segments that are being read, however long ago they began */
  forgetOld(nowMs: number, live: ReadonlySet<string>): void {
    for (const table of [this.state.jobs, this.state.rewinds])
      for (const [name, { seen_ms }] of Object.entries(table))
        if (nowMs - seen_ms > FORGET_MS && !live.has(name)) {
          delete table[name];
          this.dirty = true;
        }
  }
}

/** A run id: the engine's or the attempt, marked where the engine went back to earlier steps within one process. */
export const runName = (run: string, rewinds: number): string => (rewinds === 0 ? run : `${run}+${rewinds}`);
