import type { Position } from './cursor.js';
import type { IncidentFilter } from './store.js';

export interface Query {
  readonly sql: string;
  readonly parameters: readonly (string | bigint | number)[];
}

/** The incidents that a filter admits, newest start first, after a position; columns id, started_ns, body. */
export function incidentQuery(filter: IncidentFilter, after: Position | undefined, limit: number): Query {
  const conditions: string[] = [];
  const parameters: (string | bigint | number)[] = [];
  const where = (condition: string, ...values: (string | bigint | number)[]): void => {
    conditions.push(condition);
    parameters.push(...values);
  };
  for (const column of ['status', 'kind', 'job', 'rule'] as const)
    if (filter[column]?.length) where(`${column} IN (SELECT value FROM json_each(?))`, JSON.stringify(filter[column]));
  if (filter.severity?.length)
    where("body ->> '$.severity' IN (SELECT value FROM json_each(?))", JSON.stringify(filter.severity));
  if (filter.rank?.length)
    where(
      "EXISTS (SELECT 1 FROM json_each(?) WHERE instr(ranks, ',' || value || ',') > 0)",
      JSON.stringify(filter.rank),
    );
  if (filter.part_of !== undefined)
    where(
      "id IN (SELECT value FROM json_each((SELECT body FROM incidents WHERE id = ?), '$.storm.members'))",
      filter.part_of,
    );
  if (filter.since !== undefined) where('(ended_ns IS NULL OR ended_ns >= ?)', epochNsOf(filter.since));
  if (filter.until !== undefined) where('started_ns <= ?', epochNsOf(filter.until));
  if (after) where('(started_ns, id) < (?, ?)', after.startedNs, after.id);
  const condition = conditions.length > 0 ? `WHERE ${conditions.join(' AND ')}` : '';
  const sql = `SELECT id, started_ns, body FROM incidents ${condition} ORDER BY started_ns DESC, id DESC LIMIT ?`;
  return { sql, parameters: [...parameters, limit] };
}

/** The column `ranks`: a comma on both sides of each, so that one can be found as text. */
export const ranksColumn = (ranks: readonly number[]): string => `,${ranks.map((rank) => `${rank},`).join('')}`;

const INT64_MAX = 2n ** 63n - 1n;

/** Epoch nanoseconds of an RFC 3339 time, held within int64 (the years 1677 to 2262). */
export function epochNsOf(time: string): bigint {
  const [, seconds, fraction = '', zone] = /^(.{19})(?:\.(\d+))?(.*)$/.exec(time) as unknown as [
    string,
    string,
    string?,
    string?,
  ];
  const ns = BigInt(Date.parse(`${seconds}${zone}`)) * 1_000_000n + BigInt(fraction.padEnd(9, '0').slice(0, 9));
  if (ns > INT64_MAX) return INT64_MAX;
  return ns < -INT64_MAX ? -INT64_MAX : ns;
}
