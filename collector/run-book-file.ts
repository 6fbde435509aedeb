import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { PicketError } from '../protocol/errors.js';
import { RunBook, RunBookState } from './run-book.js';

/** Reads what an earlier collector remembered; an empty book where there is no file. Throws `bad_input` for another file. */
export function readRunBook(file: string): RunBook {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return new RunBook();
    throw error;
  }
  try {
    return new RunBook(RunBookState.parse(JSON.parse(text)));
  } catch (cause) {
    const remedy = 'delete it: jobs whose engines count no attempts then begin with run 1 again';
    throw new PicketError('bad_input', 'not the runs that a collector remembers', { file, remedy }, { cause });
  }
}

/** Writes it where it has changed; a crash leaves the old file or the new one. */
export function writeRunBook(file: string, book: RunBook): void {
  if (!book.dirty) return;
  writeFileSync(`${file}.draft`, JSON.stringify(book.state), { flush: true });
  renameSync(`${file}.draft`, file);
  book.dirty = false;
}

/** Writes the book at each call. A disk that is full is no reason to stop reading: it is told once, and the next call tries again. */
export function runKeeper(file: string, book: RunBook, onFailed: (error: unknown) => void): () => void {
  let failing = false;
  return () => {
    try {
      writeRunBook(file, book);
      failing = false;
    } catch (error) {
      if (!failing) onFailed(error);
      failing = true;
    }
  };
}
