import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';

/** Exits 0 in a Python that has what tests need. */
const PROBE = 'import sys, torch, pytest, pyarrow; assert sys.version_info >= (3, 10)';

/** Under a lock, as clones share the folder; what was left half done is thrown away. */
const INSTALL = `
[ -e "$1" ] && exit
rm -rf "$1.new"
python3 -c 'import sys; sys.exit(0 if sys.version_info >= (3, 10) else "python3 is older than 3.10")'
python3 -m venv "$1.new"
"$1.new/bin/python" -m pip install -q --no-cache-dir --disable-pip-version-check -r "$2"
mv "$1.new" "$1"
`;

/**
 * A Python with PyTorch for the tests of native/hook: $PICKET_PYTHON or python3 where it has one, else .cache/python, a
 * link to an environment with test/hook/requirements.txt that all clones share. Returns why none can be had, or undefined.
 */
export function installPython(root, say) {
  const own = process.env.PICKET_PYTHON;
  if (own) return runs(own) ? undefined : `$PICKET_PYTHON, ${own}, lacks PyTorch, pytest or pyarrow`;
  const requirements = join(root, 'test/hook/requirements.txt');
  const digest = createHash('sha256').update(readFileSync(requirements)).digest('hex').slice(0, 12);
  const cache = process.env.XDG_CACHE_HOME || join(homedir(), '.cache');
  const environment = join(cache, 'picket', `hook-tests-${digest}`);
  if (!existsSync(environment)) {
    if (runs('python3')) return undefined;
    say(`installing PyTorch into ${environment} (3.4 GB to fetch, 5.6 GB on disk): the hook's tests train with it`);
    mkdirSync(dirname(environment), { recursive: true });
    const script = ['sh', '-ec', INSTALL, 'sh', environment, requirements];
    const done = spawnSync('flock', [`${environment}.lock`, ...script], { stdio: ['ignore', 'inherit', 'pipe'] });
    if (done.error) return `flock cannot be started: ${done.error.message}`;
    if (done.status !== 0) return `it cannot be installed: ${done.stderr.toString().trim().split('\n').at(-1)}`;
  }
  const link = join(root, '.cache/python');
  rmSync(link, { force: true });
  mkdirSync(dirname(link), { recursive: true });
  symlinkSync(environment, link);
  return undefined;
}

const runs = (python) => spawnSync(python, ['-c', PROBE], { stdio: 'ignore' }).status === 0;
