import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

const PROGRAM = resolve(import.meta.dirname, '../../cli/main.js');
const READY_WITHIN_MS = 30_000;

/** `picket collector` in a process of its own, as an operator runs it. */
export class CollectorProcess {
  readonly #config: string;
  #child: ChildProcess | undefined;
  url = '';
  /** The last lines it wrote, for the message of a failing test. */
  readonly output: string[] = [];

  /**
   * @param dir its own folder, for configuration and state
   * @param program `picket`, where not this build's
   */
  constructor(
    dir: string,
    config: object,
    private readonly program = PROGRAM,
  ) {
    this.#config = join(dir, 'collector.yaml');
    const http = { host: '127.0.0.1', port: 0 };
    // JSON is YAML.
    writeFileSync(this.#config, JSON.stringify({ http, state_dir: join(dir, 'state'), ...config }));
  }

  /** Starts it; resolves once it is ready, or has exited (`false`). */
  async start(): Promise<boolean> {
    const child = spawn(process.execPath, [this.program, 'collector', '--config', this.#config], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    const ready = new Promise<boolean>((done) => {
      createInterface({ input: child.stdout }).on('line', (line) => {
        this.#note(line);
        const url = /"url":"([^"]+)".*collector ready/.exec(line)?.[1];
        if (!url) return;
        this.url = url;
        done(true);
      });
    });
    createInterface({ input: child.stderr }).on('line', (line) => this.#note(line));
    const late = new Promise<never>((_, fail) => {
      setTimeout(() => fail(new Error(`not ready in time:\n${this.output.join('\n')}`)), READY_WITHIN_MS).unref();
    });
    return Promise.race([ready, once(child, 'exit').then(() => false), late]);
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  }

  #note(line: string): void {
    this.output.push(line);
    if (this.output.length > 40) this.output.shift();
  }
}
