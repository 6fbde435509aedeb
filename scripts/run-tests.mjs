#!/usr/bin/env node
/**
 * Sets up, lints and runs the tests, all or those under the paths given (`npm test -- test/bus`). The last line is
 * `N passed, N failed[, N skipped]`, the linter counted as one. Exit 1 where something failed or nothing ran.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const TEST_FILE_TIMEOUT_MS = 1_200_000;

const run = (program, args) => spawnSync(program, args, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] }).status;

function runTests(files) {
  const totals = join(root, '.cache/test-totals.json');
  mkdirSync(dirname(totals), { recursive: true });
  rmSync(totals, { force: true });
  const options = [
    '--test',
    // Two cores are the smallest machine the suite is meant for; node's own default there is one file at a time.
    '--test-concurrency=2',
    `--test-timeout=${TEST_FILE_TIMEOUT_MS}`,
    '--test-reporter=spec',
    '--test-reporter-destination=stdout',
    '--test-reporter=./scripts/totals-reporter.mjs',
    `--test-reporter-destination=${totals}`,
    '--enable-source-maps',
  ];
  if (files.length === 0) return { passed: 0, failed: 0, skipped: [] };
  const status = run(process.execPath, [...options, ...files]);
  if (!existsSync(totals)) return { passed: 0, failed: 1, skipped: [] };
  const counted = JSON.parse(readFileSync(totals, 'utf8'));
  if (status !== 0 && counted.failed === 0) counted.failed = 1;
  return counted;
}

/** The built tests whose source lies at or under one of the paths; all where none is given. */
function testFiles(paths) {
  const wanted = paths.map((path) => join('dist', path).replace(/\.ts$/, '.js'));
  return readdirSync(join(root, 'dist/test'), { recursive: true })
    .filter((name) => name.endsWith('.test.js'))
    .map((name) => join('dist/test', name))
    .filter((file) => wanted.length === 0 || wanted.some((path) => file.startsWith(path)))
    .sort();
}

function finish({ passed, failed, skipped }) {
  for (const test of skipped) console.log(`skipped: ${test}`);
  console.log(`${passed} passed, ${failed} failed${skipped.length > 0 ? `, ${skipped.length} skipped` : ''}`);
  process.exit(failed > 0 || passed === 0 ? 1 : 0);
}

const paths = process.argv.slice(2);
/** Setting PyTorch up takes minutes and gigabytes: not for tests that do without. */
const python = paths.length === 0 || paths.some((path) => /^test\/(hook|collector)/.test(path)) ? ['python'] : [];
if (run(process.execPath, ['scripts/setup.mjs', 'test', ...python]) !== 0)
  finish({ passed: 0, failed: 1, skipped: [] });
const linted = run('node_modules/.bin/biome', ['ci', '.', ...(process.stdout.isTTY ? [] : ['--colors=off'])]) === 0;
if (!linted) console.log('lint failed: `npx biome check --write` mends what it can');
const counted = runTests(testFiles(paths));
finish({ ...counted, passed: counted.passed + (linted ? 1 : 0), failed: counted.failed + (linted ? 0 : 1) });
