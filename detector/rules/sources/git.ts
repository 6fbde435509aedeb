import { spawn } from 'node:child_process';
import { PicketError } from '../../../protocol/errors.js';
import { isRulePath, type RuleText } from '../rule-file.js';

export interface GitOptions {
  /** Repository, or a folder in its worktree. */
  readonly dir: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal | undefined;
}

const TIMEOUT_MS = 60_000;
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;
/** Nothing that a repository or a user's settings name is run; submodules and other protocols are never followed. */
const SAFE = [
  ...['-c', 'core.hooksPath=/dev/null', '-c', 'protocol.ext.allow=never', '-c', 'credential.helper='],
  ...['-c', 'gc.autoDetach=false', '-c', 'maintenance.autoDetach=false'],
];

/**
 * Runs git and gives its standard output. Throws PicketError with the reason that git gave last; arguments are not repeated.
 * @param input given to it on standard input
 */
export function git(args: readonly string[], { dir, env, signal }: GitOptions, input = ''): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const child = spawn('git', [...SAFE, '-C', dir, ...args], {
      env: { ...withoutGit(env), GIT_TERMINAL_PROMPT: '0', LC_ALL: 'C' },
      stdio: ['pipe', 'pipe', 'pipe'],
      timeout: TIMEOUT_MS,
      signal,
    });
    const output: Buffer[] = [];
    let [bytes, errors] = [0, ''];
    child.stdout.on('data', (chunk: Buffer) => {
      output.push(chunk);
      if ((bytes += chunk.length) > MAX_OUTPUT_BYTES) child.kill();
    });
    child.stderr.on('data', (chunk: Buffer) => {
      errors = (errors + chunk.toString()).slice(-2000);
    });
    child.on('error', (cause) => reject(gitError(args, `cannot be run: ${cause.message}`, cause)));
    child.on('close', (code, killedBy) => {
      if (code === 0 && bytes <= MAX_OUTPUT_BYTES) resolve(Buffer.concat(output));
      else
        reject(
          gitError(args, killedBy ? `was stopped after ${TIMEOUT_MS / 1000} s or ${bytes} bytes` : lastLine(errors)),
        );
    });
    child.stdin.on('error', () => {});
    child.stdin.end(input);
  });
}

const gitError = ([command]: readonly string[], problem: string, cause?: unknown): PicketError =>
  new PicketError('bad_input', `git ${command}: ${problem}`, {}, { cause });

/** Variables such as GIT_DIR would turn every call to another repository. Ours are among those that stay. */
function withoutGit(env: GitOptions['env']): Record<string, string | undefined> {
  const ours = /^GIT_(ASKPASS|SSH_COMMAND|CONFIG_)/;
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('GIT_') || ours.test(name)));
}

function lastLine(text: string): string {
  // What git says last of a remote is always the same; why is said before.
  const [reason = ''] = text.split(/^fatal: Could not read from remote repository\./m);
  const lines = reason.trim().split('\n');
  return lines.findLast((line) => /^(fatal|error):/.test(line)) ?? (lines.at(-1) || 'failed');
}

/** Commit that a name stands for: a hash, branch or tag. Throws `bad_input` for one that is none. */
export async function resolveCommit(ref: string, options: GitOptions): Promise<string> {
  try {
    const output = await git(['rev-parse', '--verify', '--quiet', '--end-of-options', `${ref}^{commit}`], options);
    return output.toString().trim();
  } catch (cause) {
    throw new PicketError(
      'bad_input',
      `"${ref}" is no commit of the repository`,
      { file: options.dir, remedy: 'give a branch, a tag or a hash' },
      { cause },
    );
  }
}

/** Rule files of a commit in a folder ('' or '.': all) and those below it, without touching any worktree. */
export async function readCommit(commit: string, folder: string, options: GitOptions): Promise<RuleText[]> {
  const entries = await listCommit(commit, folder.replace(/^(\.\/?)+|\/+$/g, ''), options);
  const wanted = entries.filter(
    ({ path }) => isRulePath(path) && !path.split('/').some((name) => name.startsWith('.')),
  );
  const blobs = await git(['cat-file', '--batch'], options, wanted.map(({ hash }) => `${hash}\n`).join(''));
  let at = 0;
  return wanted.map(({ path }) => {
    const start = blobs.indexOf('\n', at) + 1;
    const size = Number(blobs.toString('latin1', at, start).trim().split(' ')[2]);
    at = start + size + 1;
    return { path, text: blobs.toString('utf8', start, start + size) };
  });
}

async function listCommit(
  commit: string,
  folder: string,
  options: GitOptions,
): Promise<{ path: string; hash: string }[]> {
  const tree = folder ? `${commit}:${folder}` : commit;
  let listing: string;
  try {
    listing = (await git(['ls-tree', '-r', '-z', '--full-tree', tree], options)).toString();
  } catch (cause) {
    throw new PicketError(
      'not_found',
      `commit ${commit.slice(0, 12)} has no folder "${folder}"`,
      { remedy: 'correct the path of the rules' },
      { cause },
    );
  }
  return listing
    .split('\0')
    .map((entry) => /^100\d{3} blob ([0-9a-f]+)\t(.+)$/s.exec(entry))
    .flatMap((match) => (match ? [{ hash: match[1] as string, path: match[2] as string }] : []));
}
