/** The closed list of error codes; they are part of the public contract (HTTP problem types, exit codes, metrics labels). */
export const ERROR_CODES = [
  'bad_input',
  'bad_config',
  'unsupported_version',
  'too_large',
  'not_found',
  'bus_unavailable',
  'store_unavailable',
  'conflict',
] as const;
export type ErrorCode = (typeof ERROR_CODES)[number];

/** Where a bad input stands, and what the person reading the error can do about it. */
export interface ErrorPlace {
  file?: string | undefined;
  /** 1-based line, where the input has lines. */
  line?: number | undefined;
  /** 1-based column of the line. */
  column?: number | undefined;
  /** Byte offset, where it has none. */
  offset?: number | undefined;
  field?: string | undefined;
  remedy?: string | undefined;
}

/** An error that a user can act on: `file:line:column: field "x": problem; remedy`. */
export class PicketError extends Error {
  override readonly name = 'PicketError';
  readonly code: ErrorCode;
  readonly problem: string;
  readonly place: ErrorPlace;

  constructor(code: ErrorCode, problem: string, place: ErrorPlace = {}, options?: ErrorOptions) {
    super(describe(problem, place), options);
    this.code = code;
    this.problem = problem;
    this.place = place;
  }

  /** The same error with the place completed, as each layer knows more of it. */
  at(place: ErrorPlace): PicketError {
    return new PicketError(this.code, this.problem, { ...place, ...this.place }, { cause: this.cause });
  }
}

function describe(problem: string, place: ErrorPlace): string {
  let where = place.file ?? '';
  if (place.line !== undefined) where += where ? `:${place.line}` : `line ${place.line}`;
  if (place.line !== undefined && place.column !== undefined) where += `:${place.column}`;
  if (place.offset !== undefined) where += where ? ` at byte ${place.offset}` : `byte ${place.offset}`;
  const field = place.field === undefined || place.field === '' ? '' : `field "${place.field}": `;
  return `${where ? `${where}: ` : ''}${field}${problem}${place.remedy ? `; ${place.remedy}` : ''}`;
}
