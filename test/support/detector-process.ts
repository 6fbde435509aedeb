import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import type { Incident } from '../../protocol/incident.js';
import type { WebhookReceiver } from './webhook-receiver.js';

const PROGRAM = resolve(import.meta.dirname, '../../cli/main.js');
const READY_WITHIN_MS = 30_000;

/** `picket detector` in a process of its own, as an operator runs it; it can be killed and started again on its files. */
export class DetectorProcess {
  readonly folder = mkdtempSync(join(tmpdir(), 'picket-test-'));
  readonly #config: string;
  #given: object;
  #child: ChildProcess | undefined;
  #url = '';
  /** The last lines it wrote, for the message of a failing test. */
  readonly #output: string[] = [];

  /** @param program `picket`, where not this build's */
  constructor(
    bus: object,
    receivers: readonly WebhookReceiver[],
    extra: object = {},
    private readonly program = PROGRAM,
  ) {
    this.#config = join(this.folder, 'detector.yaml');
    const config = {
      http: { host: '127.0.0.1', port: 0 },
      bus: { ...bus, ...('dir' in bus ? { dir: this.logDir } : {}) },
      store: { path: join(this.folder, 'store.db'), synchronous: 'normal' },
      idle_seconds: 2,
      receivers: receivers.map(({ name, url, secret }, i) => {
        const secret_file = join(this.folder, `secret-${i}`);
        writeFileSync(secret_file, secret);
        return { name, url, secret_file, min_severity: 'info', allow_addresses: ['127.0.0.1'] };
      }),
      ...extra,
    };
    this.#given = config;
    this.configure({});
  }

  /** Changes its configuration; counts at the next start. */
  configure(changes: object): void {
    this.#given = { ...this.#given, ...changes };
    // JSON is YAML.
    writeFileSync(this.#config, JSON.stringify(this.#given));
  }

  /** Where an embedded log is. */
  get logDir(): string {
    return join(this.folder, 'log');
  }

  get url(): string {
    return this.#url;
  }

  /** Starts it; resolves once it is, ready or not, or has exited (`false`). */
  async start(env: Record<string, string> = {}): Promise<boolean> {
    const child = spawn(process.execPath, [this.program, 'detector', '--config', this.#config], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    const lines = createInterface({ input: child.stdout });
    const ready = new Promise<boolean>((done) => {
      lines.on('line', (line) => {
        this.#note(line);
        const url = /"url":"([^"]+)".*detector (ready|started)/.exec(line)?.[1];
        if (!url) return;
        this.#url = url;
        done(true);
      });
    });
    createInterface({ input: child.stderr }).on('line', (line) => this.#note(line));
    const exited = once(child, 'exit').then(() => false);
    const late = new Promise<never>((_, fail) => {
      setTimeout(() => fail(new Error(`not ready in time:\n${this.output}`)), READY_WITHIN_MS).unref();
    });
    return Promise.race([ready, exited, late]);
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  }

  /** Sends a signal that does not end the process. */
  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  /** Resolves once the process has gone by itself. */
  async exited(): Promise<void> {
    const child = this.#child;
    if (child && child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  }

  async incidents(): Promise<Incident[]> {
    const response = await fetch(`${this.#url}/v1/incidents?limit=100`);
    if (!response.ok) throw new Error(`GET /v1/incidents: ${response.status} ${await response.text()}`);
    return ((await response.json()) as { items: Incident[] }).items;
  }

  /** Asks until the answer satisfies. */
  async incidentsUntil(satisfied: (incidents: Incident[]) => boolean, withinMs = 60_000): Promise<Incident[]> {
    const end = performance.now() + withinMs;
    for (;;) {
      const incidents = await this.incidents();
      if (satisfied(incidents)) return incidents;
      if (performance.now() > end)
        throw new Error(
          `waited in vain; incidents: ${JSON.stringify(incidents.map(({ id, kind, status }) => [id, kind, status]))}\n${this.output}`,
        );
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  /** Asks until the sum of a metric over its labels satisfies. */
  async metricUntil(name: string, satisfied: (sum: number) => boolean, withinMs = 60_000): Promise<void> {
    const end = performance.now() + withinMs;
    for (;;) {
      const text = await (await fetch(`${this.#url}/metrics`)).text();
      const values = text.split('\n').filter((line) => line.startsWith(name));
      const sum = values.reduce((total, line) => total + Number(line.slice(line.lastIndexOf(' '))), 0);
      if (satisfied(sum)) return;
      if (performance.now() > end) throw new Error(`waited in vain; ${name} is ${sum}\n${this.output}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  get output(): string {
    return this.#output.join('\n');
  }

  async close(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  #note(line: string): void {
    this.#output.push(line);
    if (this.#output.length > 40) this.#output.shift();
  }
}
