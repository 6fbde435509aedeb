import { activeFault, type Fault } from '../faults.js';
import { EAGER, PREFILL, SERVING } from '../measured-serving.js';
import type { Random } from '../random.js';
import type { ServingSpec } from '../scenario.js';
import { decodeShape, NOMINAL_STEP_NS, prefillShape, stepCost } from './cost.js';
import type { Load, LoadSource } from './load.js';

/** Share of prefills in the look-alike of missing graphs: enough to make every window hold some. */
const MANY_PREFILLS = 0.3;

/** One engine's steps as they were recorded: decodes of one of four batch sizes, and now and then a prefill alone. */
export class RecordedLoad implements LoadSource {
  readonly #random: Random;
  readonly #spec: ServingSpec;
  readonly #faults: readonly Fault[];
  readonly #scale: number;
  readonly #lateFrom: number;
  readonly #seen = new Set<number>();
  #requests = 0;

  /** `lateFrom`: the step from which a load that changes has changed. */
  constructor(random: Random, spec: ServingSpec, faults: readonly Fault[], scale: number, lateFrom: number) {
    this.#random = random;
    this.#spec = spec;
    this.#faults = faults;
    this.#scale = scale;
    this.#lateFrom = lateFrom;
  }

  next(_nowNs: number, step: number): [Load] {
    const random = this.#random;
    const changed = step >= this.#lateFrom;
    const share = this.#spec.load === 'recorded_prefills' && changed ? MANY_PREFILLS : PREFILL.share;
    const prefills = random.uniform() < share;
    const size = PREFILL.tokens[random.below(PREFILL.tokens.length)] as number;
    const stallNs = PREFILL.stallMinNs + (PREFILL.stallMaxNs - PREFILL.stallMinNs) * random.uniform();
    const drawn = SERVING.batches[random.below(SERVING.batches.length)] as number;
    const batch = this.#spec.load === 'recorded_large' && changed ? LARGEST_BATCH : drawn;
    return [prefills ? this.#prefill(size, stallNs) : this.#decode(batch, step)];
  }

  idleUntilNs(): number {
    return 0;
  }

  #decode(batch: number, step: number): Load {
    const slower = eagerStrength(this.#faults, batch, step);
    return {
      ...stepCost(decodeShape(batch), this.#scale),
      ...{ prefillTokens: 0, decodeTokens: batch, contextTokens: batch * SERVING.contextTokens, batch },
      ...{
        graph: slower > 0 ? 0 : batch,
        paceNs: slower > 0 ? NOMINAL_STEP_NS * this.#scale * (1 + slower) : 0,
        stallNs: 0,
        request: '',
      },
    };
  }

  #prefill(tokens: number, stallNs: number): Load {
    const first = tokens >= PREFILL.firstStallFrom && !this.#seen.has(tokens);
    this.#seen.add(tokens);
    return {
      ...stepCost(prefillShape(tokens), this.#scale),
      ...{ prefillTokens: tokens, decodeTokens: 0, contextTokens: tokens, batch: 1, graph: 0 },
      ...{ paceNs: EAGER.prefillNs * this.#scale, stallNs: first ? stallNs : 0, request: `req-${this.#requests++}` },
    };
  }
}

const LARGEST_BATCH = SERVING.batches[3];

/** How much longer a decode step of so many tokens takes for want of a graph; 0 where it has one. */
export function eagerStrength(faults: readonly Fault[], tokens: number, step: number): number {
  const fault = activeFault(faults, 'eager', step);
  return fault && tokens > (fault.aboveBatch ?? 0) ? fault.strength : 0;
}
