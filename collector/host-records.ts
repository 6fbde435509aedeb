import { LAYOUT } from '../native/ts/index.js';

const { host, step, request, call } = LAYOUT;

/** What the engine told of a step (or of one microbatch of it) when it began; -1 unknown. */
export interface StepFacts {
  readonly type: 'step';
  readonly number: number;
  readonly microbatch: number;
  readonly tokens: number;
  readonly prefillTokens: number;
  readonly decodeTokens: number;
  readonly contextTokens: number;
  readonly cachedTokens: number;
  readonly recomputedTokens: number;
  readonly batch: number;
  /** CUDA graph batch size; 0 eager. */
  readonly graph: number;
  readonly running: number;
  readonly waiting: number;
  readonly preempted: number;
  readonly kvUsage: number;
  /** Ids in the order of their indices, as far as they came. */
  readonly requests: string[];
  /** How many there should be. */
  readonly requestCount: number;
  /** An id did not fit its record. */
  requestCut: boolean;
  /** Host phases that count to the step. */
  readonly host: HostSum[];
  /** One came since the step's rows were last made. */
  hostDirty: boolean;
  /** The step's rows have been made for good. */
  closed: boolean;
}

/** Host phases of one key and microbatch, summed. The start is that of `SegmentClock.hostTime`. */
export interface HostSum {
  readonly key: number;
  readonly microbatch: number;
  start: number;
  duration: number;
  max: number;
  count: number;
  bytes: number;
}

/** What the engine told of one call of a phase; -1 unknown. */
export interface CallFacts {
  readonly type: 'call';
  readonly phase: number;
  readonly bytes: number;
  readonly sequence: number;
  readonly microbatch: number;
}

/** Records that have been drained, behind which new ones are put: `words` of a BigUint64Array, seen byte by byte. */
export class HostRecord {
  readonly #view: DataView;
  #at = 0;

  constructor(words: BigUint64Array) {
    this.#view = new DataView(words.buffer, words.byteOffset, words.byteLength);
  }

  /** Looks at record `index` of the drained ones. */
  select(index: number): this {
    this.#at = index * host.size;
    return this;
  }

  get type(): number {
    return this.#view.getUint16(this.#at + host.type, true);
  }
  get phase(): number {
    return this.#view.getUint16(this.#at + host.phase, true);
  }
  get thread(): number {
    return this.#view.getUint32(this.#at + host.thread, true);
  }
  /** CLOCK_MONOTONIC. */
  get timeNs(): bigint {
    return this.#view.getBigUint64(this.#at + host.timeNs, true);
  }

  step(): StepFacts {
    return {
      type: 'step',
      number: this.#long(step.step),
      microbatch: this.#int(step.microbatch),
      tokens: this.#int(step.tokens),
      prefillTokens: this.#int(step.prefillTokens),
      decodeTokens: this.#int(step.decodeTokens),
      contextTokens: this.#long(step.contextTokens),
      cachedTokens: this.#long(step.cachedTokens),
      recomputedTokens: this.#long(step.recomputedTokens),
      batch: this.#int(step.batch),
      graph: this.#int(step.graph),
      running: this.#int(step.running),
      waiting: this.#int(step.waiting),
      preempted: this.#int(step.preempted),
      kvUsage: this.#view.getFloat32(this.#at + host.payload + step.kvUsage, true),
      requests: [],
      requestCount: this.#int(step.requests),
      requestCut: false,
      host: [],
      hostDirty: false,
      closed: false,
    };
  }

  call(): CallFacts {
    return {
      type: 'call',
      phase: this.phase,
      bytes: this.#long(call.bytes),
      sequence: this.#long(call.sequence),
      microbatch: this.#int(call.microbatch),
    };
  }

  /** Low 16 bits of the number of the step's record. */
  get requestStep(): number {
    return this.#view.getUint16(this.#at + host.payload + request.stepRecord, true);
  }
  get requestCut(): boolean {
    return this.#view.getUint16(this.#at + host.payload + request.length, true) > request.textSize;
  }
  get requestText(): string {
    const view = this.#view;
    const text = Buffer.from(view.buffer, view.byteOffset + this.#at + host.payload + request.text, request.textSize);
    const end = text.indexOf(0);
    return text.toString('utf8', 0, end < 0 ? request.textSize : end);
  }

  #int(offset: number): number {
    return this.#view.getInt32(this.#at + host.payload + offset, true);
  }
  #long(offset: number): number {
    return Number(this.#view.getBigInt64(this.#at + host.payload + offset, true));
  }
}
