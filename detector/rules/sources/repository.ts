import { existsSync } from 'node:fs';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { RepositoryConfig } from '../config.js';
import { git, readCommit, resolveCommit } from './git.js';
import type { RuleSource, RuleTexts } from './source.js';

const HEAD = 'refs/picket/head';
/** Git asks it for the user name and the password; where they are it learns from the environment. */
const ASKPASS = `#!/bin/sh
case "$1" in
  Username*) printf '%s\\n' "$PICKET_GIT_USERNAME" ;;
  *) if [ -n "$PICKET_GIT_PASSWORD_FILE" ]; then cat "$PICKET_GIT_PASSWORD_FILE"; else printf '%s\\n' "$PICKET_GIT_PASSWORD"; fi ;;
esac
`;

/**
 * A repository that the detector fetches itself, the newest commit of one branch. Secrets reach git through files and
 * its environment, never through arguments.
 * @param dir where the fetched objects are kept
 */
export function repositorySource(
  config: RepositoryConfig,
  dir: string,
  env: Readonly<Record<string, string | undefined>>,
): RuleSource {
  const { url, branch, path } = config;
  const repository = resolve(dir);
  const askpass = join(repository, 'picket-askpass');
  const read = async (signal: AbortSignal): Promise<RuleTexts> => {
    const options = { dir: repository, env: environment(config, env, askpass), signal };
    if (!existsSync(join(repository, 'HEAD'))) {
      await mkdir(repository, { recursive: true });
      await git(['init', '--bare', '--quiet'], options);
    }
    await writeFile(askpass, ASKPASS);
    await chmod(askpass, 0o700);
    // The plus takes in a branch that was rewritten.
    const refspec = `+refs/heads/${branch}:${HEAD}`;
    const flags = ['--quiet', '--depth=1', '--no-tags', '--no-write-fetch-head', '--no-recurse-submodules'];
    await git(['fetch', ...flags, '--end-of-options', url, refspec], options);
    const commit = await resolveCommit(HEAD, options);
    return { commit, texts: await readCommit(commit, path, options) };
  };
  return { description: `repository ${url}, branch ${branch}, folder ${path}`, isRemote: true, read };
}

function environment(
  { username, password_file, password_env, ssh_key_file, ssh_known_hosts_file }: RepositoryConfig,
  env: Readonly<Record<string, string | undefined>>,
  askpass: string,
): Record<string, string | undefined> {
  const quoted = (file: string): string => `'${file.replaceAll("'", `'\\''`)}'`;
  const ssh = [
    'ssh -o BatchMode=yes -o StrictHostKeyChecking=yes',
    ...(ssh_key_file ? [`-o IdentitiesOnly=yes -i ${quoted(ssh_key_file)}`] : []),
    ...(ssh_known_hosts_file ? [`-o UserKnownHostsFile=${quoted(ssh_known_hosts_file)}`] : []),
  ];
  return {
    ...env,
    GIT_ASKPASS: askpass,
    GIT_SSH_COMMAND: ssh.join(' '),
    PICKET_GIT_USERNAME: username,
    PICKET_GIT_PASSWORD_FILE: password_file,
    PICKET_GIT_PASSWORD: password_env === undefined ? undefined : env[password_env],
  };
}
