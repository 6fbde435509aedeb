import * as z from 'zod';
import { COLUMN_NAMES, type ColumnName, type ColumnType, columnSpec } from './columns.js';
import { PicketError } from './errors.js';
import { type JobMeta, Rank, type RankInfo } from './job-meta.js';
import { MAX_RANK } from './limits.js';
import { cleanName } from './names.js';
import { type PhaseBatch, type PhaseRow, rowOf } from './phase-batch.js';
import type { RowFault } from './phase-checks.js';
import { SampleRow } from './sample.js';
import { canonicalPhase, KIND, KIND_NAMES, type KindName, kindOfPhase, OPS } from './vocabulary.js';

/*
 * JSONL: the wire's rows for people and tests, one JSON object a line. Names are those of the columns plus the facts
 * below; integers are read exactly at any size, bare or as decimal strings.
 */

/** Why a line was dropped without being a row at all; the other reasons are RowFaults. */
export type LineFault = RowFault | 'invalid_value' | 'value_out_of_range' | 'invalid_sample';

/** What a line says of its job, host and rank beside the row itself. */
export interface LineFacts {
  job?: string;
  run?: string;
  host?: string;
  job_info?: Partial<Pick<JobMeta, (typeof JOB_FACTS)[number] | 'slots'>>;
  rank_info?: Omit<RankInfo, 'rank'>;
  groups?: JobMeta['groups'];
}

export type JsonlLine =
  | {
      readonly type: 'phase';
      readonly row: PhaseRow;
      readonly facts: LineFacts;
      /** Names cut to the limit. */
      readonly namesCut: number;
    }
  | { readonly type: 'sample'; readonly sample: SampleRow }
  | { readonly type: 'dropped'; readonly reason: LineFault; readonly field?: string };

/**
 * Reads one line. A value that cannot be true drops the row with a reason; what is wrong with every line of a file
 * (not an object, an unknown or a missing field) throws `bad_input` naming the field, for the caller to add file and line.
 */
export function parsePhaseLine(text: string): JsonlLine {
  const line = parseObject(text);
  if ('sample' in line) return sampleLine(line);
  const row: Partial<Record<ColumnName, number | bigint | string>> = {};
  const facts: LineFacts = {};
  let namesCut = 0;
  for (const field in line) {
    const value = line[field];
    const type = FIELD_TYPES.get(field);
    if (type === undefined) throw unknownField(field);
    if (type === 'fact') readFact(facts, field, value);
    if (type === 'fact' || type === 'ignored') continue;
    const read = readValue(field as ColumnName, type, value);
    if (typeof read === 'object') return { type: 'dropped', reason: read.fault, field };
    if (read === undefined) continue;
    if (type === 'name' && read !== value && typeof value === 'string') namesCut++;
    row[field as ColumnName] = read;
  }
  for (const field of REQUIRED)
    if (!(field in line))
      throw new PicketError('bad_input', 'is missing', { field, remedy: `every row needs ${REQUIRED.join(', ')}` });
  completeFromPhase(row);
  return { type: 'phase', row: row as PhaseRow, facts, namesCut };
}

const REQUIRED = COLUMN_NAMES.filter((name) => columnSpec(name).absent === null);
const KEY_FACTS = ['job', 'run', 'host'] as const;
const JOB_FACTS = ['engine', 'engine_version', 'model', 'device', 'config_hash'] as const;
const RANK_FACTS = ['local_rank', 'dp', 'tp', 'pp', 'ep', 'stage'] as const;

const FIELD_TYPES = new Map<string, ColumnType | 'fact' | 'ignored'>([
  ...COLUMN_NAMES.map((name) => [name, columnSpec(name).type] as const),
  ...[...KEY_FACTS, ...JOB_FACTS, ...RANK_FACTS, 'gpu', 'clock', 'slots', 'groups'].map(
    (name) => [name, 'fact'] as const,
  ),
  ['extra', 'ignored'],
]);

/** A bare integer of 16 digits or more: within JSON a quoted word before a colon is always a key, never part of a string. */
const LONG_INTEGER = /"(\w+)"\s*:\s*(-?\d{16,})(?=\s*[,}])/g;

function parseObject(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    // Quoted, since JSON.parse would round them to a double.
    value = JSON.parse(text.replace(LONG_INTEGER, '"$1":"$2"'));
  } catch (cause) {
    throw new PicketError('bad_input', `not JSON (${(cause as Error).message})`, {}, { cause });
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new PicketError('bad_input', 'not a JSON object', { remedy: 'write one object a line' });
}

function unknownField(field: string): PicketError {
  return new PicketError('bad_input', 'is unknown', { field, remedy: 'put what is not a column under "extra"' });
}

function sampleLine(line: Record<string, unknown>): JsonlLine {
  for (const field in line) if (field !== 'sample' && field !== 'extra') throw unknownField(field);
  const parsed = SampleRow.safeParse(line.sample);
  if (parsed.success) return { type: 'sample', sample: parsed.data };
  for (const issue of parsed.error.issues)
    if (issue.code === 'unrecognized_keys') throw unknownField(`sample.${issue.keys[0]}`);
  return { type: 'dropped', reason: 'invalid_sample' };
}

/** The value as its column holds it; undefined: absent, so the default applies; an object: the row cannot be kept. */
function readValue(
  field: ColumnName,
  type: ColumnType,
  value: unknown,
): number | bigint | string | undefined | { fault: LineFault } {
  if (value === null && columnSpec(field).absent !== null) return undefined;
  if (field === 'kind') return kindNumber(value);
  switch (type) {
    case 'name':
      return nameOf(value) ?? INVALID;
    case 'bool':
      return value === true || value === 1 ? 1 : value === false || value === 0 ? 0 : INVALID;
    case 'float32':
      return typeof value === 'number' ? value : INVALID;
    default: {
      const integer = integerOf(value);
      if (integer === undefined) return INVALID;
      const [min, max] = RANGES[type];
      return integer < min || integer > max ? { fault: rangeFault(field, integer) } : integer;
    }
  }
}

const INVALID = { fault: 'invalid_value' } as const;

const RANGES = {
  uint8: [0, 255],
  uint32: [0, 2 ** 32 - 1],
  int32: [-(2 ** 31), 2 ** 31 - 1],
  int64: [-(2n ** 63n), 2n ** 63n - 1n],
} as const;

function rangeFault(field: ColumnName, value: number | bigint): LineFault {
  if (field === 'rank') return 'rank_out_of_range';
  if (field === 'start_ns') return 'start_out_of_range';
  if (field === 'dur_ns') return value < 0 ? 'duration_negative' : 'duration_too_long';
  return 'value_out_of_range';
}

function kindNumber(value: unknown): number {
  if (typeof value === 'string' && Object.hasOwn(KIND, value)) return KIND[value as KindName];
  throw new PicketError('bad_input', `${JSON.stringify(value)} is not a kind`, {
    field: 'kind',
    remedy: `use one of ${KIND_NAMES.join(', ')}`,
  });
}

function nameOf(value: unknown): string | undefined {
  if (typeof value === 'string') return cleanName(value);
  return typeof value === 'number' && Number.isSafeInteger(value) ? String(value) : undefined;
}

function integerOf(value: unknown): number | bigint | undefined {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? value : undefined;
  if (typeof value !== 'string' || !/^-?\d{1,400}$/.test(value)) return undefined;
  return value.length <= 15 ? Number(value) : BigInt(value);
}

function readFact(facts: LineFacts, field: string, value: unknown): void {
  if (value === null) return;
  if (field === 'groups') facts.groups = readGroups(value);
  else if (isOneOf(KEY_FACTS, field)) facts[field] = factName(field, value);
  else if (isOneOf(JOB_FACTS, field)) facts.job_info = { ...facts.job_info, [field]: factName(field, value) };
  else if (field === 'gpu') facts.rank_info = { ...facts.rank_info, gpu: factName(field, value) };
  else if (field === 'clock') facts.rank_info = { ...facts.rank_info, clock: clockOf(value) };
  else if (!Number.isSafeInteger(value))
    throw new PicketError('bad_input', `${JSON.stringify(value)} is not an integer`, { field });
  else if (field === 'slots') facts.job_info = { ...facts.job_info, slots: value as number };
  else facts.rank_info = { ...facts.rank_info, [field]: value as number };
}

function clockOf(value: unknown): 'gpu' | 'host' {
  if (value === 'gpu' || value === 'host') return value;
  throw new PicketError('bad_input', `${JSON.stringify(value)} is not a clock`, {
    field: 'clock',
    remedy: 'write "gpu" or "host"',
  });
}

const isOneOf = <T extends string>(names: readonly T[], name: string): name is T =>
  (names as readonly string[]).includes(name);

function factName(field: string, value: unknown): string {
  const name = nameOf(value);
  if (name) return name;
  throw new PicketError('bad_input', `${JSON.stringify(value)} is not a name`, { field });
}

const Groups = z.record(z.string(), z.array(Rank));

function readGroups(value: unknown): JobMeta['groups'] {
  const parsed = Groups.safeParse(value);
  if (parsed.success)
    return Object.fromEntries(Object.entries(parsed.data).map(([name, ranks]) => [cleanName(name), ranks]));
  throw new PicketError('bad_input', 'is not an object of lists of ranks', {
    field: 'groups',
    remedy: `write {"tp0":[0,1]}, ranks from 0 to ${MAX_RANK}`,
  });
}

const OP_NAMES: ReadonlySet<string> = new Set(OPS);

function completeFromPhase(row: Partial<Record<ColumnName, number | bigint | string>>): void {
  const phase = canonicalPhase(row.phase as string);
  row.phase = phase;
  row.kind ??= KIND[kindOfPhase(phase)];
  row.op = row.op === undefined ? opOfPhase(phase) : canonicalPhase(row.op as string);
}

const opOfPhase = (phase: string): string => (OP_NAMES.has(phase) ? phase : '');

/** Row i as a line, without the newline: what `parsePhaseLine` reads back to the same row. Defaults are left out. */
export function formatPhaseLine(batch: PhaseBatch, i: number): string {
  const { job, run, host, groups, ranks, ...facts } = batch.meta;
  const row = rowOf(batch, i);
  const { host: rankHost, ...info } = ranks.find(({ rank }) => rank === row.rank) ?? {};
  const line: Record<string, unknown> = {
    job,
    run: run === '1' ? undefined : run,
    host: rankHost || host || undefined,
  };
  Object.assign(line, info, facts);
  for (const name of COLUMN_NAMES) {
    const value = formatted(name, row[name]);
    if (value !== defaultOf(name, row.phase)) line[name] = value;
  }
  // Constant in a message: once is enough.
  if (i === 0 && Object.keys(groups).length > 0) line.groups = groups;
  return JSON.stringify(line);
}

/** A sample as a line, without the newline. */
export function formatSampleLine(sample: SampleRow): string {
  const said = Object.entries({ ...sample, time_ns: String(sample.time_ns) });
  const defaults: Record<string, unknown> = { rank: -1, cumulative: false };
  return JSON.stringify({ sample: Object.fromEntries(said.filter(([name, v]) => v !== (defaults[name] ?? ''))) });
}

/** What a line that lacks the field means by it. */
function defaultOf(name: ColumnName, phase: string): unknown {
  if (name === 'kind') return kindOfPhase(phase);
  if (name === 'op') return opOfPhase(phase);
  return name === 'open' ? false : columnSpec(name).absent;
}

function formatted(name: ColumnName, value: number | bigint | string | boolean): unknown {
  if (name === 'kind') return KIND_NAMES[value as number];
  if (name === 'open') return Boolean(value);
  if (typeof value !== 'bigint') return value;
  // A string where other JSON readers would round a number.
  return value >= -MAX_SAFE && value <= MAX_SAFE ? Number(value) : String(value);
}

const MAX_SAFE = BigInt(Number.MAX_SAFE_INTEGER);
