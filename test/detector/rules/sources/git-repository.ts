import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/** A real Git repository in a folder of its own. */
export class GitRepository {
  readonly folder = mkdtempSync(join(tmpdir(), 'picket-git-'));
  /** The worktree. */
  readonly dir = join(this.folder, 'repository');

  constructor() {
    mkdirSync(this.dir);
    this.git('init', '--quiet', '--initial-branch=main');
    this.git('config', 'user.name', 'tests');
    this.git('config', 'user.email', 'tests@example.invalid');
  }

  /** Writes files (null: deletes one), commits them and gives the commit. */
  commit(files: Record<string, string | null>, ...options: string[]): string {
    for (const [path, text] of Object.entries(files)) {
      const file = join(this.dir, path);
      mkdirSync(dirname(file), { recursive: true });
      if (text === null) rmSync(file);
      else writeFileSync(file, text);
    }
    this.git('add', '--all');
    this.git('commit', '--quiet', '--allow-empty', '--message=rules', ...options);
    return this.git('rev-parse', 'HEAD');
  }

  git(...args: string[]): string {
    return execFileSync('git', ['-C', this.dir, ...args], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    }).trim();
  }

  get url(): string {
    return `file://${this.dir}`;
  }

  dispose(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
