import { activeFault, type Fault } from '../faults.js';
import { REQUESTS } from '../measured-requests.js';
import { EAGER } from '../measured-serving.js';
import type { Random } from '../random.js';
import type { Arrivals } from '../requests/arrivals.js';
import type { Request } from '../requests/request.js';
import { SyntheticRequests } from '../requests/synthetic.js';
import { graphFor, NOMINAL_STEP_NS, prefillShape, stepCost, totalNs } from './cost.js';
import type { Load, LoadSource } from './load.js';
import { eagerStrength } from './recorded-load.js';
import type { Router } from './router.js';
import type { Batch, Scheduler } from './scheduler.js';

export interface ScheduledLoadParts {
  /** One a replica. */
  readonly schedulers: readonly Scheduler[];
  readonly router: Router;
  readonly arrivals: Arrivals;
  readonly faults: readonly Fault[];
  /** For long prompts. */
  readonly random: Random;
  readonly scale: number;
}

/** The steps of replicas that serve requests. */
export class ScheduledLoad implements LoadSource {
  readonly #parts: ScheduledLoadParts;
  readonly #longPrompts: SyntheticRequests;
  #nextLongNs = 0;

  constructor(parts: ScheduledLoadParts) {
    this.#parts = parts;
    this.#longPrompts = new SyntheticRequests(parts.random, REQUESTS['long-prompts'], 0, 'long');
  }

  next(nowNs: number, step: number): (Load | undefined)[] {
    const { schedulers, router, arrivals } = this.#parts;
    const held = (): number[] => schedulers.map(({ running, waiting }) => running + waiting);
    const all = held().reduce((sum, requests) => sum + requests, 0);
    for (const request of [...arrivals.due(nowNs, all, step), ...this.#longPrompt(nowNs, step)])
      (schedulers[router.route(held(), nowNs, step)] as Scheduler).add(request);
    // A cache that will be too small preempts nobody before.
    const spares = this.#parts.faults.some(({ effect, onset }) => effect === 'kv' && step < onset);
    return schedulers.map((scheduler) => {
      const batch = scheduler.step(spares || undefined);
      return batch && this.#load(batch, scheduler, step);
    });
  }

  idleUntilNs(): number {
    return this.#parts.arrivals.nextNs();
  }

  /** From the onset on, long prompts come as often as makes their prefills cost `strength` times the decoding between them. */
  #longPrompt(nowNs: number, step: number): Request[] {
    const { faults, scale } = this.#parts;
    const fault = activeFault(faults, 'prompts', step);
    if (!fault || nowNs < this.#nextLongNs) return [];
    const request = this.#longPrompts.next();
    const prefillNs = totalNs(stepCost(prefillShape(request.promptTokens), scale));
    this.#nextLongNs = nowNs + prefillNs * (1 + 1 / fault.strength);
    return [request];
  }

  #load(batch: Batch, { usage, running, waiting }: Scheduler, step: number): Load {
    const { scale, faults } = this.#parts;
    const tokens = batch.decodeTokens + batch.prefillTokens;
    const slower = eagerStrength(faults, tokens, step);
    const graph = slower > 0 ? 0 : graphFor(tokens);
    const paceNs = slower > 0 ? NOMINAL_STEP_NS * (1 + slower) : EAGER.prefillNs;
    const { attentionNs, mlpNs, allReduceNs } = stepCost(batch, scale);
    return {
      attentionNs,
      mlpNs,
      allReduceNs,
      prefillTokens: batch.prefillTokens,
      decodeTokens: batch.decodeTokens,
      contextTokens: batch.contextTokens,
      batch: batch.sequences,
      graph,
      paceNs: graph > 0 ? 0 : paceNs * scale,
      stallNs: 0,
      request: batch.request,
      state: {
        kv_usage: usage,
        running,
        waiting,
        preempted: batch.preempted,
        cached_tokens: batch.cachedTokens,
        recomputed_tokens: batch.recomputedTokens,
      },
    };
  }
}
