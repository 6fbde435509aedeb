import { existsSync, readlinkSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { GitRepository } from './git-repository.js';

/** Publishes commits as git-sync does: a worktree named by its hash, and a link flipped to it by a rename. */
export class GitSyncTree {
  readonly link: string;
  readonly #repository: GitRepository;
  readonly #root: string;

  constructor(repository: GitRepository) {
    this.#repository = repository;
    this.#root = repository.folder;
    this.link = join(this.#root, 'current');
  }

  publish(commit: string): void {
    const before = existsSync(this.link) ? readlinkSync(this.link) : undefined;
    const tree = join(this.#root, 'worktrees', commit);
    if (!existsSync(tree)) this.#repository.git('worktree', 'add', '--quiet', '--detach', tree, commit);
    const draft = join(this.#root, 'tmp-link');
    symlinkSync(join('worktrees', commit), draft);
    renameSync(draft, this.link);
    if (before && join(this.#root, before) !== tree) rmSync(join(this.#root, before), { recursive: true });
    this.#repository.git('worktree', 'prune');
  }
}
