import { type FileMetaData, parquetMetadataAsync, parquetRead, parquetSchema } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { PicketError } from '../protocol/errors.js';
import { Int64Column } from '../protocol/int64.js';
import type { NameColumn } from '../protocol/phase-batch.js';
import type { SourceFile } from './source-file.js';

/** Rows [from, to) of a file. */
export interface RowRange {
  readonly from: number;
  readonly to: number;
}

export const isParquet = ({ head }: SourceFile): boolean => head.toString('latin1', 0, 4) === 'PAR1';

/** A parquet file read column by column into typed arrays; no row is ever an object. */
export class ParquetFile {
  readonly file: SourceFile;
  readonly columns: ReadonlySet<string>;
  readonly all: RowRange;
  readonly #metadata: FileMetaData;

  private constructor(file: SourceFile, metadata: FileMetaData) {
    this.file = file;
    this.#metadata = metadata;
    this.columns = new Set(parquetSchema(metadata).children.map(({ element }) => element.name));
    this.all = { from: 0, to: Number(metadata.num_rows) };
  }

  /** Reads the footer. */
  static async open(file: SourceFile): Promise<ParquetFile> {
    try {
      return new ParquetFile(file, await parquetMetadataAsync(bufferOf(file)));
    } catch (cause) {
      throw damaged(file, 'footer', cause);
    }
  }

  /** Throws unless all columns are there. */
  require(names: readonly string[]): void {
    const missing = names.filter((name) => !this.columns.has(name));
    if (missing.length === 0) return;
    throw new PicketError('bad_input', `column ${missing.join(', ')} is missing`, {
      file: this.file.path,
      field: missing[0],
      remedy: `the file has ${[...this.columns].join(', ')}`,
    });
  }

  /** Small integers and floats; nulls become `absent`. */
  async numbers(name: string, rows: RowRange, absent: number): Promise<Float64Array> {
    const values = new Float64Array(rows.to - rows.from);
    await this.#read(name, rows, (i, value) => {
      values[i] = value == null ? absent : Number(value);
    });
    return values;
  }

  /** 64-bit integers, exactly; nulls become `absent`. */
  async int64(name: string, rows: RowRange, absent: bigint): Promise<Int64Column> {
    const values = new BigInt64Array(rows.to - rows.from);
    await this.#read(name, rows, (i, value) => {
      if (value != null && typeof value !== 'bigint' && !Number.isSafeInteger(value))
        throw new PicketError('bad_input', 'does not hold 64-bit integers', {
          file: this.file.path,
          field: name,
          remedy: 'write whole numbers (times in nanoseconds) as int64: other types round them',
        });
      values[i] = value == null ? absent : BigInt(value as number | bigint);
    });
    return Int64Column.over(values);
  }

  /** Text; nulls become ''. */
  async names(name: string, rows: RowRange): Promise<NameColumn> {
    const indices = new Int32Array(rows.to - rows.from);
    const ids = new Map<string, number>();
    await this.#read(name, rows, (i, value) => {
      const text = String(value ?? '');
      let id = ids.get(text);
      if (id === undefined) ids.set(text, (id = ids.size));
      indices[i] = id;
    });
    return { indices, values: [...ids.keys()] };
  }

  async #read(column: string, { from, to }: RowRange, set: (i: number, value: unknown) => void): Promise<void> {
    // What a callback of the library throws is nobody's to catch.
    let thrown: unknown;
    try {
      await parquetRead({
        file: bufferOf(this.file),
        metadata: this.#metadata,
        compressors,
        columns: [column],
        rowStart: from,
        rowEnd: to,
        onChunk({ columnData, rowStart, rowEnd }) {
          try {
            // A chunk may reach beyond the range that was asked for.
            for (let row = Math.max(rowStart, from); row < Math.min(rowEnd, to); row++)
              set(row - from, columnData[row - rowStart]);
          } catch (error) {
            thrown ??= error;
          }
        },
      });
      if (thrown !== undefined) throw thrown;
    } catch (cause) {
      throw cause instanceof PicketError ? cause : damaged(this.file, `column "${column}"`, cause);
    }
  }
}

const bufferOf = (file: SourceFile) => ({
  byteLength: file.size,
  slice: (start: number, end?: number) => file.slice(start < 0 ? file.size + start : start, end),
});

function damaged(file: SourceFile, part: string, cause: unknown): PicketError {
  if (cause instanceof PicketError) return cause;
  return new PicketError(
    'bad_input',
    `the parquet ${part} cannot be read (${(cause as Error).message})`,
    { file: file.path, offset: file.size, remedy: 'the file is cut short or damaged; copy it again' },
    { cause },
  );
}
