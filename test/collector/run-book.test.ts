import assert from 'node:assert/strict';
import { existsSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { RunBook, runName } from '../../collector/run-book.js';
import { readRunBook, runKeeper, writeRunBook } from '../../collector/run-book-file.js';
import { folder } from './support.js';

describe('attempts of a job whose engines count none', () => {
  it('begin when a rank comes again; the others join as they come', () => {
    const book = new RunBook();
    const attempt = (rank: number, segment: string) => book.attemptOf('j', rank, segment, 0);
    assert.deepEqual([attempt(0, 'a0'), attempt(1, 'a1'), attempt(2, 'a2')], ['1', '1', '1']);
    assert.deepEqual([attempt(1, 'b1'), attempt(0, 'b0')], ['2', '2']);
    // Rank 0 fails again before rank 2 is there.
    assert.deepEqual([attempt(0, 'c0'), attempt(2, 'b2'), attempt(1, 'c1')], ['3', '3', '3']);
    assert.deepEqual([attempt(0, 'a0'), attempt(2, 'a2'), attempt(1, 'b1')], ['1', '1', '2']);
    assert.equal(book.attemptOf('other', 0, 'x', 0), '1');
  });

  it('are remembered, and forgotten a month after the job was last seen', () => {
    const book = new RunBook();
    book.attemptOf('j', 0, 'a', 0);
    book.attemptOf('j', 0, 'b', 0);
    book.noteRewinds('b', 2, 0);
    const file = join(folder(), 'runs.json');
    assert.deepEqual(readRunBook(file).state, { jobs: {}, rewinds: {} });
    writeRunBook(file, book);
    const again = readRunBook(file);
    assert.deepEqual([again.attemptOf('j', 0, 'b', 1), again.rewindsOf('b')], ['2', 2]);
    const later = 40 * 86_400_000;
    again.forgetOld(later, new Set(['j', 'b']));
    assert.deepEqual([again.attemptOf('j', 0, 'b', 1), again.rewindsOf('b')], ['2', 2]);
    again.forgetOld(later, new Set());
    assert.deepEqual(again.state, { jobs: {}, rewinds: {} });
  });

  it('are written only where they have changed', () => {
    const file = join(folder(), 'runs.json');
    const book = new RunBook();
    book.noteRewinds('s', 0, 0);
    writeRunBook(file, book);
    assert.ok(!existsSync(file));
  });

  it('are kept later where the disk is full now, which is told once', () => {
    const dir = folder();
    const file = join(dir, 'runs.json');
    const book = new RunBook();
    let told = 0;
    const keep = runKeeper(file, book, () => told++);
    mkdirSync(`${file}.draft`);
    book.attemptOf('j', 0, 'a', 1);
    keep();
    keep();
    assert.deepEqual([told, existsSync(file)], [1, false]);
    rmdirSync(`${file}.draft`);
    keep();
    assert.deepEqual(readRunBook(file).state, book.state);
  });

  it('in a file that is none say so', () => {
    const file = join(folder(), 'runs.json');
    writeFileSync(file, '{"jobs": 3}');
    assert.throws(() => readRunBook(file), /runs\.json: not the runs.*delete it/);
  });
});

it('a run whose process went back to earlier steps has a name of its own', () => {
  assert.deepEqual([runName('7', 0), runName('7', 2)], ['7', '7+2']);
});
