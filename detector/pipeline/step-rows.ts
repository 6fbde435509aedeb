import type { Int64Column } from '../../protocol/int64.js';
import type { PhaseBatch } from '../../protocol/phase-batch.js';
import type { ServingFact } from './step-view.js';

/** A message whose dictionary ids have been mapped to ids that hold for the whole job. */
export interface JobBatch {
  readonly batch: PhaseBatch;
  readonly phaseIds: Int32Array;
  readonly groupIds: Int32Array;
  /** By dictionary index of `op`: 1 where nobody can leave before the last has come. */
  readonly blocking: Uint8Array;
  /** Some row names a NIC or link. */
  readonly namesPorts: boolean;
  /** Those of SERVING_FACTS that the message has. */
  readonly facts: readonly { readonly name: ServingFact; readonly column: Int32Array | Float32Array | Int64Column }[];
}

/** What a step's rows are kept in; the next step's are as many, and memory that has grown to them saves time. */
export interface StepMemory {
  /** Batch, row and slot, one after the other. */
  refs: Int32Array<ArrayBuffer>;
  /** Open addressing over references, by identity: index + 1, 0 is empty. At most half full. */
  table: Int32Array<ArrayBuffer>;
}

/** Memory for about so many rows. */
export function newStepMemory(rows: number): StepMemory {
  const least = Math.max(64, rows);
  return { refs: new Int32Array(3 * least), table: new Int32Array(2 ** Math.ceil(Math.log2(2 * least + 2))) };
}

/**
 * The rows of one step that has not closed, as references into their messages: nothing is copied. A row of an identity
 * that is already there replaces it (of open rows the longest wins), so redelivery changes nothing.
 */
export class StepRows {
  readonly step: number;
  /** Of the first message with rows of the step. */
  readonly offset: bigint;
  /** Slots of JobTopology that have sent a row of the step -> start of their first one, nanoseconds as a double. */
  readonly starts = new Map<number, number>();
  readonly #batches: JobBatch[] = [];
  #lastBatch = 0;
  #count = 0;
  #refs: Int32Array<ArrayBuffer>;
  #table: Int32Array<ArrayBuffer>;

  constructor(step: number, offset: bigint, memory: StepMemory = newStepMemory(0)) {
    this.step = step;
    this.offset = offset;
    this.#refs = memory.refs;
    this.#table = memory.table;
  }

  /** Gives the memory away, for another step; the rows are gone. */
  release(): StepMemory {
    this.#count = 0;
    this.#table.fill(0);
    return { refs: this.#refs, table: this.#table };
  }

  get length(): number {
    return this.#count;
  }

  /** Adds row i of a batch; false if it replaced one of the same identity. */
  add(source: JobBatch, i: number, slot: number): boolean {
    if (2 * (this.#count + 1) > this.#table.length) this.#rehash();
    const at = this.#find(source, i);
    const found = (this.#table[at] as number) - 1;
    if (found >= 0) {
      if (!this.#keepsLongerOpen(found, source, i)) this.#setRef(found, source, i, slot);
      return false;
    }
    if (3 * this.#count === this.#refs.length) this.#refs = grown(this.#refs);
    this.#setRef(this.#count, source, i, slot);
    this.#table[at] = ++this.#count;
    return true;
  }

  forEach(visit: (source: JobBatch, row: number, slot: number) => void): void {
    for (let n = 0; n < this.#count; n++) visit(this.#batchOf(n), this.#rowOf(n), this.#refs[3 * n + 2] as number);
  }

  #batchOf(n: number): JobBatch {
    return this.#batches[this.#refs[3 * n] as number] as JobBatch;
  }

  #rowOf(n: number): number {
    return this.#refs[3 * n + 1] as number;
  }

  #setRef(n: number, source: JobBatch, i: number, slot: number): void {
    if (this.#batches[this.#lastBatch] !== source) {
      this.#lastBatch = this.#batches.indexOf(source);
      if (this.#lastBatch < 0) this.#lastBatch = this.#batches.push(source) - 1;
    }
    this.#refs[3 * n] = this.#lastBatch;
    this.#refs[3 * n + 1] = i;
    this.#refs[3 * n + 2] = slot;
  }

  #keepsLongerOpen(n: number, source: JobBatch, i: number): boolean {
    if (!source.batch.columns.open[i]) return false;
    return this.#batchOf(n).batch.columns.dur_ns.number(this.#rowOf(n)) > source.batch.columns.dur_ns.number(i);
  }

  /** The table place of the row's identity, or the empty place where it belongs. */
  #find(source: JobBatch, i: number): number {
    const mask = this.#table.length - 1;
    let at = hashOf(source, i) & mask;
    for (;;) {
      const n = (this.#table[at] as number) - 1;
      if (n < 0) return at;
      if (sameIdentity(source, i, this.#batchOf(n), this.#rowOf(n))) return at;
      at = (at + 1) & mask;
    }
  }

  #rehash(): void {
    this.#table = new Int32Array(2 * this.#table.length);
    for (let n = 0; n < this.#count; n++) this.#table[this.#find(this.#batchOf(n), this.#rowOf(n))] = n + 1;
  }
}

function grown(refs: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(2 * refs.length);
  larger.set(refs);
  return larger;
}

/** Identity of a row within its job, run and step. */
function hashOf({ batch, phaseIds, groupIds }: JobBatch, i: number): number {
  const { columns } = batch;
  let hash = Math.imul(columns.rank[i] as number, 0x9e3779b1);
  hash = mix(hash, phaseIds[columns.phase.indices[i] as number] as number);
  hash = mix(hash, columns.layer[i] as number);
  hash = mix(hash, columns.microbatch[i] as number);
  hash = mix(hash, groupIds[columns.group.indices[i] as number] as number);
  hash = mix(hash, columns.seq.words[2 * i] as number);
  hash = mix(hash, columns.open[i] as number);
  return (hash ^ (hash >>> 15)) >>> 0;
}

const mix = (hash: number, value: number): number => Math.imul(hash ^ value ^ (hash >>> 13), 0x85ebca6b);

function sameIdentity(a: JobBatch, i: number, b: JobBatch, k: number): boolean {
  const x = a.batch.columns;
  const y = b.batch.columns;
  return (
    x.rank[i] === y.rank[k] &&
    a.phaseIds[x.phase.indices[i] as number] === b.phaseIds[y.phase.indices[k] as number] &&
    x.layer[i] === y.layer[k] &&
    x.microbatch[i] === y.microbatch[k] &&
    a.groupIds[x.group.indices[i] as number] === b.groupIds[y.group.indices[k] as number] &&
    x.seq.number(i) === y.seq.number(k) &&
    x.open[i] === y.open[k]
  );
}
