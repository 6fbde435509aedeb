#!/usr/bin/env node
/**
 * Builds @tensorflow/tfjs-node, the quickest backend of the learned baselines, against the libtensorflow of PyPI's
 * tensorflow-cpu: its own installation downloads from a host that many networks do not reach, and fails the whole
 * `npm install` there. Everything lies in .cache/tfjs-node, where the loader (detector/baseline/tensorflow.ts) looks;
 * node_modules would lose it at the next `npm install`. Nothing is done where it loads.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const PACKAGE = '@tensorflow/tfjs-node';
const VERSION = '4.22.0';
/** One wheel for every Python: only its C library and headers are used. */
const WHEEL = {
  name: 'tensorflow-cpu==2.21.0',
  sha256: '2b847d217b02ee7731ed91431daf3250daa0196c3c94614d23be27232e6e5b6c',
  tags: ['--platform', 'manylinux_2_27_x86_64', '--python-version', '3.11', '--implementation', 'cp', '--abi', 'cp311'],
};
/** Library, the framework it needs, and the headers of the C API. */
const UNPACK = `
import shutil, sys, zipfile
libraries = ['tensorflow/libtensorflow_cc.so.2', 'tensorflow/libtensorflow_framework.so.2']
headers = 'tensorflow/include/'
wanted = ('tensorflow/c/', 'tensorflow/core/platform/ctstring', 'tsl/platform/ctstring', 'xla/tsl/c/')
wheel, libs, include = zipfile.ZipFile(sys.argv[1]), sys.argv[2], sys.argv[3]
for name in libraries:
    with wheel.open(name) as source, open(libs + '/' + name.split('/')[-1], 'wb') as target:
        shutil.copyfileobj(source, target, 1 << 24)
for name in wheel.namelist():
    if name.startswith(headers) and name[len(headers):].startswith(wanted) and name.endswith('.h'):
        info = wheel.getinfo(name)
        info.filename = name[len(headers):]
        wheel.extract(info, include)
`;

/**
 * Puts @tensorflow/tfjs-node into .cache/tfjs-node of the repository. Returns why that cannot be done, or undefined.
 *
 * @param say told what is done and why
 */
export function installTfjsNode(root, say) {
  const home = join(root, '.cache/tfjs-node');
  if (existsSync(home))
    return loads(home) ? undefined : `the build in ${home} does not load: remove that folder to build it again`;
  if (process.platform !== 'linux' || process.arch !== 'x64') return 'it is built for Linux on x86-64 only';
  const fresh = `${home}.new`;
  rmSync(fresh, { recursive: true, force: true });
  try {
    build(fresh, say);
  } catch (error) {
    rmSync(fresh, { recursive: true, force: true });
    return error.message;
  }
  renameSync(fresh, home);
  return undefined;
}

const loads = (folder) => spawnSync(process.execPath, ['-e', `require('${PACKAGE}')`], { cwd: folder }).status === 0;

function build(folder, say) {
  mkdirSync(folder, { recursive: true });
  run('python3', ['-m', 'pip', '--version'], folder, 'there is no `python3 -m pip`');
  run('g++', ['--version'], folder, 'there is no C++ compiler (g++)');
  run('make', ['--version'], folder, 'there is no make');
  say(`fetching ${PACKAGE} ${VERSION} by npm (300 MB unpacked), without its installation script`);
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, dependencies: { [PACKAGE]: VERSION } }));
  run('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund'], folder, 'npm could not fetch it');
  say(`fetching ${WHEEL.name} by pip (274 MB, 820 MB unpacked): its libtensorflow does the arithmetic`);
  const home = join(folder, 'node_modules', PACKAGE);
  fetchLibrary(folder, join(home, 'deps'));
  say('building the addon between them');
  const builder = ['exec', '--no', '--', 'node-pre-gyp', 'install', '--build-from-source'];
  run('npm', builder, home, 'the addon could not be built', ownHeaders());
  rmSync(join(home, 'build'), { recursive: true, force: true });
  if (!loads(folder)) throw new Error('what was built does not load');
}

function fetchLibrary(folder, deps) {
  const requirements = join(folder, 'requirements.txt');
  writeFileSync(requirements, `${WHEEL.name} --hash=sha256:${WHEEL.sha256}\n`);
  const download = ['download', '--quiet', '--no-deps', '--only-binary=:all:', ...WHEEL.tags, '--require-hashes'];
  const args = ['-m', 'pip', ...download, '-r', requirements, '-d', folder];
  run('python3', args, folder, `pip could not fetch ${WHEEL.name}`);
  const [name, version] = WHEEL.name.replace('-', '_').split('==');
  const wheel = join(folder, `${name}-${version}-cp311-cp311-manylinux_2_27_x86_64.whl`);
  const libs = join(deps, 'lib');
  mkdirSync(libs, { recursive: true });
  run('python3', ['-c', UNPACK, wheel, libs, join(deps, 'include')], folder, 'the wheel does not hold the C library');
  // The linker asks for these names.
  symlinkSync('libtensorflow_cc.so.2', join(libs, 'libtensorflow.so'));
  symlinkSync('libtensorflow_framework.so.2', join(libs, 'libtensorflow_framework.so'));
  rmSync(wheel);
}

/** Headers that came with this Node, where they did: node-gyp downloads them otherwise. */
function ownHeaders() {
  const prefix = resolve(dirname(process.execPath), '..');
  return existsSync(join(prefix, 'include/node/node_api.h')) ? { npm_config_nodedir: prefix } : {};
}

/** Runs a program quietly; where it fails, shows its output and throws `problem`. */
function run(program, args, cwd, problem, variables = {}) {
  const env = { ...variables, ...process.env };
  const { status, stdout, stderr } = spawnSync(program, args, { cwd, env, encoding: 'utf8' });
  if (status === 0) return;
  process.stderr.write(`${stdout ?? ''}${stderr ?? ''}`);
  throw new Error(problem);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = resolve(dirname(fileURLToPath(import.meta.url)), '..');
  const missing = installTfjsNode(root, (line) => console.log(`tfjs-node: ${line}`));
  console.log(missing ? `tfjs-node: not available, because ${missing}` : 'tfjs-node: loads');
  process.exit(missing ? 1 : 0);
}
