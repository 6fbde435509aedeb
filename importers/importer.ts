import type { ErrorPlace } from '../protocol/errors.js';
import type { PhaseBatch } from '../protocol/phase-batch.js';
import type { SampleRow } from '../protocol/sample.js';
import type { SourceFile } from './source-file.js';

/** A kind of file that can be read. */
export interface Importer {
  readonly name: string;
  /** What it reads, for the message that lists what can be imported. */
  readonly reads: string;
  /** Takes the files it can read, alone or together; it looks at names, first bytes and footers only. */
  claim(files: readonly SourceFile[]): Promise<Claim[]>;
}

/** Files that are read together by one importer. */
export interface Claim {
  readonly importer: string;
  readonly files: readonly SourceFile[];
  /** The files may hold several scenarios, of which the context chooses. */
  readonly hasScenarios?: true;
  read(context: ReadContext): AsyncIterable<SourceBatch>;
}

export interface ReadContext {
  /** Overrides the job that the file names. */
  readonly job: string | undefined;
  /** Where a file holds several runs of an experiment: the one to read. */
  readonly scenario: string | undefined;
  /** Counts a record that cannot be used. */
  dropped(reason: string, place: ErrorPlace, count?: number): void;
  /** Counts a record that was kept after a correction. */
  repaired(reason: string, place: ErrorPlace, count?: number): void;
  sample(sample: SampleRow & { job: string }): void;
}

/** Rows as a file gives them; impossible ones are not yet dropped. */
export interface SourceBatch {
  readonly batch: PhaseBatch;
  readonly file: SourceFile;
  /** Rows of one rank must all have the same owner: the file, or the scenario within it. */
  readonly owner: string;
  /** The file does not say which rank it is; it was taken as rank 0. */
  readonly rankAssumed?: boolean;
  /** Where row i stands in the file. */
  placeOf(row: number): ErrorPlace;
}
