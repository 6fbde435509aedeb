import type { JobMeta } from '../protocol/job-meta.js';
import { MAX_MESSAGE_ROWS } from '../protocol/limits.js';
import { cleanName } from '../protocol/names.js';
import { type PhaseBatch, PhaseBatchBuilder } from '../protocol/phase-batch.js';
import { canonicalPhase, KIND, kindOfPhase, OPS } from '../protocol/vocabulary.js';
import type { TraceEvent } from './chrome-events.js';
import { growingFloat64, growingInt64 } from './growing-column.js';

const OP_NAMES: ReadonlySet<string> = new Set(OPS);

/** Events of a trace of unknown origin: each is a phase by its name, in the step that `args.step` says, else step 0. */
export class PhaseEvents {
  readonly #names: string[] = [];
  readonly #ids = new Map<string, number>();
  readonly #name = growingFloat64();
  readonly #step = growingFloat64();
  readonly #start = growingInt64();
  readonly #dur = growingInt64();

  add({ name = '', args }: TraceEvent, startNs: bigint, durNs: bigint): void {
    const phase = canonicalPhase(cleanName(name));
    let id = this.#ids.get(phase);
    if (id === undefined) this.#ids.set(phase, (id = this.#names.push(phase) - 1));
    this.#name.push(id);
    this.#step.push(Number.isSafeInteger(args?.step) ? (args?.step as number) : 0);
    this.#start.push(startNs);
    this.#dur.push(durNs);
  }

  /** By step and start; phases that a step repeats are numbered. */
  *rows(meta: JobMeta, rank: number, baseNs: bigint): Generator<PhaseBatch> {
    const rows = new PhaseBatchBuilder(meta, 64);
    const seqs = new Map<number, number>();
    let last = -1;
    for (const i of this.#order()) {
      const id = this.#name.at(i);
      const step = this.#step.at(i);
      if (step !== last) seqs.clear();
      last = step;
      const seq = seqs.get(id) ?? 0;
      seqs.set(id, seq + 1);
      const phase = this.#names[id] as string;
      const op = OP_NAMES.has(phase) ? phase : '';
      const start_ns = this.#start.at(i) + baseNs;
      rows.push({ rank, step, phase, kind: KIND[kindOfPhase(phase)], op, seq, start_ns, dur_ns: this.#dur.at(i) });
      if (rows.length === MAX_MESSAGE_ROWS) yield rows.take();
    }
    yield rows.take();
  }

  #order(): Uint32Array {
    const order = Uint32Array.from({ length: this.#name.length }, (_, i) => i);
    const base = order.length > 0 ? this.#start.at(0) : 0n;
    const starts = Float64Array.from(order, (i) => Number(this.#start.at(i) - base));
    return order.sort(
      (a, b) => this.#step.at(a) - this.#step.at(b) || (starts[a] as number) - (starts[b] as number) || a - b,
    );
  }
}
