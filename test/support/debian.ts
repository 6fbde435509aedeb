import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';

const ROOT = resolve(process.cwd(), '.cache/debian');

/** Path of a program out of Debian's packages. */
export const debianProgram = (name: string): string => resolve(ROOT, 'usr/bin', name);

/** Give it to node:test. With CI=true the tests run, and so fail, where the programs cannot be had. */
export const needsDebian = {
  skip:
    existsSync(debianProgram('promtool')) || process.env.CI === 'true'
      ? false
      : 'needs Prometheus and Alertmanager: run `node scripts/setup.mjs test`',
} as const;

/** Runs a program to its end. */
export function runDebian(
  name: string,
  args: readonly string[],
  input = '',
): { status: number | null; output: string } {
  const { status, stdout, stderr, error } = spawnSync(debianProgram(name), args, { input, encoding: 'utf8' });
  if (error) throw error;
  return { status, output: stdout + stderr };
}

/** A program that serves on loopback until the test is over. */
export class DebianServer {
  readonly #child: ChildProcess;
  #output = '';

  constructor(t: { after(fn: () => unknown): void }, name: string, args: readonly string[]) {
    this.#child = spawn(debianProgram(name), args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'] });
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.on('data', (data: Buffer) => {
        this.#output = (this.#output + data).slice(-4000);
      });
    t.after(() => this.stop());
  }

  /** Asks until `ask` gives something other than undefined; a throw counts as not yet. */
  async until<T>(ask: () => Promise<T | undefined>, what: string, withinMs = 30_000): Promise<T> {
    const end = performance.now() + withinMs;
    for (;;) {
      const answer = await ask().catch(() => undefined);
      if (answer !== undefined) return answer;
      if (this.#child.exitCode !== null || performance.now() > end)
        throw new Error(`waited in vain for ${what}:\n${this.#output}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exited = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await exited;
  }
}
