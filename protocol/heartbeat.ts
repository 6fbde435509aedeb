import * as z from 'zod';
import { PicketError } from './errors.js';
import { Rank } from './job-meta.js';

/*
 * What a collector says of itself every few seconds on `picket.collectors.v1`, as JSON, keyed by host: so that a job that
 * ended, a rank that died and a collector that died are told apart.
 */

const Count = z.int().nonnegative();
const Ranks = z.array(Rank);

/** A collector's heartbeat. Counts are totals since it started. Fields that a reader does not know are ignored. */
export const CollectorHeartbeat = z.object({
  host: z.string().min(1),
  version: z.string(),
  started_at: z.iso.datetime(),
  sent_at: z.iso.datetime(),
  /** Another one comes within so many seconds, unless the collector dies. */
  interval_s: z.number().positive(),
  /** The collector ends in order: silence from now on means nothing. */
  stopping: z.boolean(),
  jobs: z.array(
    z.object({
      job: z.string(),
      run: z.string(),
      /** Ranks of this host whose engines live. */
      live: Ranks,
      /** Ranks whose engines ended in order in the last minutes. */
      ended: Ranks,
      /** Ranks whose engines died in the last minutes. */
      died: Ranks,
    }),
  ),
  rows: z.object({ sent: Count, lost: Count }),
  /** Fence and host records read out of the segments, and lost there. */
  records: z.object({ read: Count, lost: Count }),
  /** Phases that became no part of a row. */
  phases_dropped: Count,
  /** The largest error of a live GPU's clock against this host's; null without a GPU. */
  clock_error_ns: z.number().nonnegative().nullable(),
  sink: z.object({ name: z.string(), ok: z.boolean() }),
  spool_bytes: Count,
});
export type CollectorHeartbeat = z.infer<typeof CollectorHeartbeat>;

export const encodeHeartbeat = (heartbeat: CollectorHeartbeat): Uint8Array => Buffer.from(JSON.stringify(heartbeat));

/** Throws `bad_input` naming the field. */
export function decodeHeartbeat(bytes: Uint8Array): CollectorHeartbeat {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder().decode(bytes));
  } catch (cause) {
    throw new PicketError('bad_input', 'the heartbeat is not JSON', {}, { cause });
  }
  const parsed = CollectorHeartbeat.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw new PicketError('bad_input', issue?.message ?? 'invalid', { field: issue?.path.join('.') });
}
