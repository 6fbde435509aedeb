#!/usr/bin/env node
/**
 * Everything a fresh clone needs, each part skipped where it is there: `setup.mjs` for the product, `setup.mjs test` for
 * its tests too, `setup.mjs test python` for those with PyTorch as well. Exit 1: a part without which nothing works has failed. Parts that only some tests need are named instead.
 */
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  unlinkSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { unpackDebianPrograms } from './debian/programs.mjs';
import { installKafkaJars } from './kafka/jars.mjs';
import { installPython } from './python.mjs';
import { installTfjsNode } from './tfjs-node.mjs';

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const say = (line) => console.log(`setup: ${line}`);

/** Runs a program in the repository; its output is the user's. Throws where it fails. */
function run(program, args) {
  const result = spawnSync(program, args, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] });
  if (result.error) throw new Error(`${program} cannot be started: ${result.error.message}`);
  if (result.status !== 0) throw new Error(`\`${program} ${args.join(' ')}\` failed with exit ${result.status}`);
}

/** Does node_modules hold what package-lock.json says, version by version? Optional packages may be absent. */
function packagesAreCurrent() {
  const installed = join(root, 'node_modules/.package-lock.json');
  if (!existsSync(installed)) return false;
  const packagesOf = (file) => JSON.parse(readFileSync(file, 'utf8')).packages;
  const have = packagesOf(installed);
  return Object.entries(packagesOf(join(root, 'package-lock.json'))).every(
    ([path, wanted]) => path === '' || (have[path] ? have[path].version === wanted.version : wanted.optional === true),
  );
}

/** The one native package: its install script may have been blocked, or built for another Node version. */
function sqliteLoads() {
  const program = "const D = require('better-sqlite3'); new D(':memory:').close()";
  return spawnSync(process.execPath, ['-e', program], { cwd: root, stdio: 'ignore' }).status === 0;
}

function installPackages() {
  if (!packagesAreCurrent()) {
    say('installing the npm packages of package-lock.json (Kafka client, SQLite, HTTP, Arrow, compiler, linter)');
    run('npm', ['ci', '--no-audit', '--no-fund']);
  }
  if (!sqliteLoads()) {
    say('building better-sqlite3 (the incident store) for this Node version');
    run('npm', ['rebuild', 'better-sqlite3']);
    if (!sqliteLoads()) throw new Error('better-sqlite3 does not load: install a C++ compiler, make and Python 3');
  }
}

function build() {
  run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', '.']);
  pruneOutputs(join(root, 'dist'), root);
}

/** Removes outputs whose source is gone: a deleted test must not run. */
function pruneOutputs(outputs, sources) {
  for (const entry of readdirSync(outputs, { withFileTypes: true })) {
    const output = join(outputs, entry.name);
    const source = join(sources, entry.name.replace(/\.js(\.map)?$/, '.ts'));
    if (!existsSync(source)) rmSync(output, { recursive: true });
    else if (entry.isDirectory()) pruneOutputs(output, source);
  }
}

/** So that `npx picket` finds the program of this clone. */
function linkProgram() {
  const link = join(root, 'node_modules/.bin/picket');
  const target = '../../bin/picket.js';
  const there = lstatSync(link, { throwIfNoEntry: false });
  if (there?.isSymbolicLink() && readlinkSync(link) === target) return;
  if (there) unlinkSync(link);
  symlinkSync(target, link);
}

/** The fence library and the reader of its rings: only the collector's tests need them here. */
function buildNative() {
  say('building native/ (fence library, ring reader and their tests) with make and g++');
  run('make', ['-s', '-C', 'native', 'addon', 'tests', 'sanitized']);
}

const parts = process.argv.slice(2);
if (!['', 'test', 'test python'].includes(parts.join(' '))) {
  console.error('usage: setup.mjs [test [python]]');
  process.exit(2);
}
try {
  installPackages();
  build();
  linkProgram();
} catch (error) {
  console.error(`setup: ${error.message}`);
  process.exit(1);
}
if (parts.includes('test')) {
  try {
    buildNative();
  } catch (error) {
    say(`not available: the native parts, because ${error.message}; the tests that need them will fail`);
  }
  const noPython = parts.includes('python') ? installPython(root, say) : undefined;
  if (noPython) say(`not available: PyTorch, because ${noPython}; the tests that need it will be skipped`);
  const noTensorFlow = installTfjsNode(root, say);
  if (noTensorFlow)
    say(`not available: tfjs-node for the tests, because ${noTensorFlow}; the tests that need it will be skipped`);
  const missing = installKafkaJars(root, say);
  if (missing) say(`not available: Kafka for the tests, because ${missing}; the tests that need it will be skipped`);
  const noPeers = unpackDebianPrograms(root, say);
  if (noPeers)
    say(
      `not available: Prometheus and Alertmanager for the tests, because ${noPeers}; the tests that need them will be skipped`,
    );
}
