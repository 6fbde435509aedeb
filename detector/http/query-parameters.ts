import * as z from 'zod';
import { IncidentKind, IncidentStatus, Severity } from '../../protocol/incident.js';
import { MAX_NAME_CHARS, MAX_RANK } from '../../protocol/limits.js';
import type { IncidentFilter } from '../store/store.js';
import { parsed } from './problem.js';

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 200;
/** Values of one repeated parameter. */
const MAX_VALUES = 100;

export const many = <T extends z.ZodType>(value: T) =>
  z.preprocess(
    (given) => (given === undefined || Array.isArray(given) ? given : [given]),
    z.array(value).max(MAX_VALUES).optional(),
  );
export const integer = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,15}$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.int().min(min).max(max));
const name = z.string().min(1).max(MAX_NAME_CHARS);
const time = z.iso
  .datetime({ offset: true, error: 'must be an RFC 3339 time, such as 2026-01-31T12:00:00Z' })
  .optional();

/** The parameters of the list of incidents; any other is an error, so that a misspelt filter is not taken for no filter. */
const IncidentQuery = z
  .strictObject({
    status: many(IncidentStatus),
    kind: many(IncidentKind),
    severity: many(Severity),
    job: many(name),
    rank: many(integer(0, MAX_RANK)),
    rule: many(name),
    part_of: name.optional(),
    silenced: z.stringbool().optional(),
    since: time,
    until: time,
    cursor: z.string().max(1024).optional(),
    limit: integer(1, MAX_LIMIT).default(DEFAULT_LIMIT),
  })
  .refine(({ since, until }) => !since || !until || Date.parse(since) <= Date.parse(until), {
    path: ['until'],
    message: 'is before since',
  });

export interface ParsedIncidentQuery {
  readonly filter: IncidentFilter;
  /** Only those that a silence holds back, or only the others. */
  readonly silenced: boolean | undefined;
  readonly cursor: string | undefined;
  readonly limit: number;
}

/** Throws `InvalidRequest` naming every parameter that does not fit. */
export function parseIncidentQuery(query: unknown): ParsedIncidentQuery {
  const { cursor, limit, silenced, ...given } = parsed(IncidentQuery, query);
  const filter = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  return { filter, silenced, cursor, limit };
}
