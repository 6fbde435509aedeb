import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface, type Interface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { program } from './build.js';

/** A process that writes a segment through the fence library; see fence_writer.cc for its commands. */
export class Writer {
  readonly path: string;
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: AsyncIterator<string>;
  readonly #interface: Interface;

  private constructor(path: string, child: ChildProcessByStdio<Writable, Readable, null>, input: Interface) {
    this.path = path;
    this.#child = child;
    this.#interface = input;
    this.#lines = input[Symbol.asyncIterator]();
  }

  /** Starts one whose segment, in `directory`, has a fence ring of `capacity` records (a power of two). */
  static async start(directory: string, capacity = 4096, attributes = '{}'): Promise<Writer> {
    const args = [directory, String(capacity), attributes];
    const child = spawn(program('test/fence_writer'), args, { stdio: ['pipe', 'pipe', 'inherit'] });
    const input = createInterface(child.stdout);
    const [path] = (await once(input, 'line')) as [string];
    return new Writer(path, child, input);
  }

  get pid(): number {
    return this.#child.pid ?? -1;
  }

  /** Sends a command and waits until it is carried out. */
  async send(command: string): Promise<void> {
    this.#child.stdin.write(`${command}\n`);
    const answer = await this.#lines.next();
    if (answer.value !== 'ok') throw new Error(`${command}: the writer answered ${answer.value}`);
  }

  /** SIGKILL by default: it dies without a word. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = once(this.#child, 'exit');
    this.#child.kill(signal);
    await gone;
    this.#interface.close();
  }
}
