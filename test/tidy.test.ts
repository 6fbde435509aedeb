import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { describe, it } from 'node:test';

/** Rules of the source tree that no linter knows. */

/** Folder -> folders it may import from, beside itself. `cli`, `eval`, `test` and `bench` may import all. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  protocol: [],
  native: [],
  bus: ['protocol'],
  importers: ['protocol'],
  simulator: ['protocol'],
  collector: ['native', 'protocol', 'bus'],
  detector: ['protocol', 'bus'],
};
/** Code between a message and an incident: it may not read a clock, the environment or a file. */
const PURE = ['detector/detectors', 'detector/counters', 'detector/reference', 'detector/pipeline'].concat([
  'detector/incidents',
  'protocol',
]);
const IMPURE =
  /\b(Date\.now|new Date\(\)|performance\.now|process\.(env|argv|hrtime)|Math\.random|setTimeout|setInterval)\b|from 'node:(fs|net|http|child_process|os)/;

const MAX_FILE_LINES = 350;
const MAX_MEDIAN_LINES = 200;

interface Source {
  path: string;
  text: string;
}

function sources(folder: string): Source[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(
      (entry) =>
        entry.isFile() && /\.(ts|mjs|js|cc|h|py)$/.test(entry.name) && !entry.parentPath.includes('node_modules'),
    )
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => ({ path, text: readFileSync(path, 'utf8') }));
}

const present = [...Object.keys(MAY_IMPORT), 'cli', 'eval', 'test', 'bench', 'scripts'].filter((folder) =>
  readdirSync('.').includes(folder),
);
const all = present.flatMap(sources).filter(({ path }) => !/\/build\/|generated/.test(path));

describe('the source tree', () => {
  it('imports in one direction', () => {
    const wrong: string[] = [];
    for (const { path, text } of all) {
      const folder = path.split('/')[0] as string;
      const allowed = MAY_IMPORT[folder];
      if (!allowed || !path.endsWith('.ts')) continue;
      for (const [, target] of text.matchAll(/(?:from|import\()\s*'(\.[^']+)'/g)) {
        const imported = relative('.', normalize(join(dirname(path), target as string))).split('/')[0] as string;
        if (imported !== folder && !allowed.includes(imported)) wrong.push(`${path} imports ${imported}`);
      }
    }
    assert.deepEqual(wrong, []);
  });

  it('reads no clock, environment or file between a message and an incident', () => {
    const wrong = all
      .filter(({ path }) => PURE.some((folder) => path.startsWith(`${folder}/`)))
      .flatMap(({ path, text }) =>
        text.split('\n').flatMap((line, i) => (IMPURE.test(line) ? [`${path}:${i + 1}: ${line.trim()}`] : [])),
      );
    assert.deepEqual(wrong, []);
  });

  it('has files that can be read in one go', () => {
    const code = all.filter(({ path }) => !path.startsWith('test/'));
    const lines = code.map(({ path, text }) => ({ path, lines: text.split('\n').length }));
    const long = lines.filter((file) => file.lines > MAX_FILE_LINES);
    assert.deepEqual(long, []);
    const sorted = lines.map((file) => file.lines).sort((a, b) => a - b);
    assert.ok((sorted[sorted.length >> 1] as number) <= MAX_MEDIAN_LINES);
  });

  it('leaves nothing unfinished behind', () => {
    const marks = new RegExp(
      `\\b(${['TO', 'DO'].join('')}|${['FIX', 'ME'].join('')}|${['X', 'XX'].join('')})\\b|[.]only[(]`,
    );
    const wrong = all.flatMap(({ path, text }) =>
      text.split('\n').flatMap((line, i) => (marks.test(line) ? [`${path}:${i + 1}`] : [])),
    );
    assert.deepEqual(wrong, []);
  });
});
