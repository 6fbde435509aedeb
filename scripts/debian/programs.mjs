import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';

/** Debian packages, and the program of each that tests talk to. */
const PACKAGES = {
  prometheus: 'promtool',
  'prometheus-alertmanager': 'prometheus-alertmanager',
  'alertmanager-irc-relay': 'alertmanager-irc-relay',
};

/**
 * Unpacks the real peers of alerts and metrics from Debian's packages into .cache/debian, unless they are there; nothing is
 * installed and no root is needed. Returns why that cannot be done, or undefined.
 */
export function unpackDebianPrograms(root, say) {
  const target = join(root, '.cache/debian');
  if (Object.values(PACKAGES).every((program) => existsSync(join(target, 'usr/bin', program)))) return undefined;
  say(
    'fetching Prometheus, Alertmanager and its IRC relay (32 MB) from Debian into .cache/debian: real peers for the tests',
  );
  mkdirSync(join(root, '.cache'), { recursive: true });
  const fresh = mkdtempSync(join(root, '.cache/debian-'));
  try {
    const problem = download(fresh) ?? unpack(fresh) ?? relocate(join(fresh, 'root'));
    if (problem) return problem;
    rmSync(target, { recursive: true, force: true });
    renameSync(join(fresh, 'root'), target);
    return undefined;
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

/** By the package lists of the system; by fresh ones of our own where those lack a package or are out of date. */
function download(folder) {
  if (spawnSync('apt-get', ['--version'], { stdio: 'ignore' }).status !== 0)
    return 'there is no `apt-get` (it takes Debian)';
  const apt = (options, ...command) =>
    spawnSync('apt-get', ['-qq', '-o', 'APT::Sandbox::User=root', ...options, ...command], {
      cwd: folder,
      stdio: ['ignore', 'ignore', 'pipe'],
      encoding: 'utf8',
    });
  if (apt([], 'download', ...Object.keys(PACKAGES)).status === 0) return undefined;
  for (const part of ['lists/partial', 'cache/archives/partial']) mkdirSync(join(folder, part), { recursive: true });
  const own = [
    `Dir::State::lists=${join(folder, 'lists')}`,
    `Dir::Cache=${join(folder, 'cache')}`,
    'Debug::NoLocking=1',
  ];
  const options = own.flatMap((option) => ['-o', option]);
  const { status, stderr } = [apt(options, 'update'), apt(options, 'download', ...Object.keys(PACKAGES))].at(-1);
  return status === 0 ? undefined : `apt-get could not fetch them: ${stderr.trim().split('\n').at(-1)}`;
}

function unpack(folder) {
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.deb'))) {
    const { status } = spawnSync('dpkg', ['-x', join(folder, file), join(folder, 'root')], { stdio: 'ignore' });
    if (status !== 0) return `dpkg could not unpack ${file}`;
  }
  return undefined;
}

/** Where Debian's Alertmanager looks for its templates, and the same place below the folder it runs in: of one length. */
const [SYSTEM, UNPACKED] = ['/usr/share/prometheus/alertmanager', 'usr/share//prometheus/alertmanager'];

/** Alertmanager does not start without its templates, and these are not installed. */
function relocate(folder) {
  const file = join(folder, 'usr/bin/prometheus-alertmanager');
  const program = readFileSync(file);
  let found = 0;
  for (let at = program.indexOf(SYSTEM); at >= 0; at = program.indexOf(SYSTEM, at + 1)) {
    // Its pages lie in a folder below, and are not asked for.
    if (program[at + SYSTEM.length] === '/'.charCodeAt(0)) continue;
    program.write(UNPACKED, at, 'latin1');
    found++;
  }
  if (found === 0) return 'this Alertmanager looks for its templates elsewhere';
  writeFileSync(file, program);
  return undefined;
}
