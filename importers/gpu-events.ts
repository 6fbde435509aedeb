import type { Collective } from './collective-kernels.js';
import { growingFloat64, growingInt64, growingUint8 } from './growing-column.js';

/** What an event on the GPU does. `other`: memsets and copies within the GPU. */
const GPU_WORK = ['kernel', 'collective', 'other', 'h2d', 'd2h'] as const;
export type GpuWork = (typeof GPU_WORK)[number];

/** By the event's category and name, as Kineto writes them for CUDA and ROCm. */
export function workOf(category: string, name: string, collective: boolean): GpuWork {
  if (/kernel/i.test(category)) return collective ? 'collective' : 'kernel';
  if (/HtoD/.test(name)) return 'h2d';
  return /DtoH/.test(name) ? 'd2h' : 'other';
}

export interface GpuEvent {
  readonly work: GpuWork;
  readonly startNs: bigint;
  readonly durNs: number;
  /** Of the call that launched it; NaN: not said. */
  readonly correlation: number;
  readonly bytes: number;
  readonly collective: Collective | undefined;
}

/** The GPU work of one rank, held at 41 bytes an event since a trace is not in the order of time. */
export class GpuEvents {
  readonly #work = growingUint8();
  readonly #start = growingInt64();
  readonly #dur = growingFloat64();
  readonly #correlation = growingFloat64();
  readonly #bytes = growingFloat64();
  readonly #collective = growingFloat64();
  readonly #collectives: Collective[] = [];
  readonly #collectiveIds = new Map<string, number>();

  get length(): number {
    return this.#work.length;
  }

  push({ work, startNs, durNs, correlation, bytes, collective }: GpuEvent): void {
    this.#work.push(GPU_WORK.indexOf(work));
    this.#start.push(startNs);
    this.#dur.push(durNs);
    this.#correlation.push(correlation);
    this.#bytes.push(bytes);
    this.#collective.push(collective ? this.#idOf(collective) : -1);
  }

  at(i: number): GpuEvent {
    return {
      work: GPU_WORK[this.#work.at(i)] as GpuWork,
      startNs: this.#start.at(i),
      durNs: this.#dur.at(i),
      correlation: this.#correlation.at(i),
      bytes: this.#bytes.at(i),
      collective: this.#collectives[this.#collective.at(i)],
    };
  }

  /** Event numbers by start. */
  byStart(): Uint32Array {
    const base = this.length > 0 ? this.#start.at(0) : 0n;
    const order = Uint32Array.from({ length: this.length }, (_, i) => i);
    const starts = Float64Array.from(order, (i) => Number(this.#start.at(i) - base));
    return order.sort((a, b) => (starts[a] as number) - (starts[b] as number) || a - b);
  }

  #idOf(collective: Collective): number {
    const key = JSON.stringify(collective);
    let id = this.#collectiveIds.get(key);
    if (id === undefined) this.#collectiveIds.set(key, (id = this.#collectives.push(collective) - 1));
    return id;
  }
}
