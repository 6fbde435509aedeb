import { activeFault, type Fault } from '../faults.js';
import type { Random } from '../random.js';
import type { ServingSpec } from '../scenario.js';

/** vllm PR 47420: 6 of 10 requests to one of two engines, and the other way round a while later. */
const SKEW = 1.2;
const SKEW_STEPS = 100;
/** vllm PR 22910: until the first statistics, 100 to 200 ms after the start, everything goes to replica 0. */
const BURST_NS = 200e6;

/** Which replica serves a request. */
export class Router {
  readonly #random: Random;
  readonly #routing: ServingSpec['routing'];
  readonly #faults: readonly Fault[];
  readonly #ranksPerReplica: number;

  constructor(random: Random, routing: ServingSpec['routing'], faults: readonly Fault[], ranksPerReplica: number) {
    this.#random = random;
    this.#routing = routing;
    this.#faults = faults;
    this.#ranksPerReplica = ranksPerReplica;
  }

  /** `held`: requests that each replica has. */
  route(held: readonly number[], nowNs: number, step: number): number {
    if (held.length === 1) return 0;
    if (this.#routing === 'burst' && nowNs < BURST_NS) return 0;
    const fault = activeFault(this.#faults, 'router', step);
    if (fault) return this.#drawn(held.map((_, replica) => this.#favour(fault, replica, held.length)));
    const odd = Math.floor(step / SKEW_STEPS) % 2;
    const share = (replica: number): number => (this.#routing !== 'skewed' ? 1 : replica % 2 === odd ? SKEW : 2 - SKEW);
    const relative = held.map((requests, replica) => (requests + 1) / share(replica));
    return relative.indexOf(Math.min(...relative));
  }

  /** Share of the requests over the even one; the mean over the replicas is 1. */
  #favour({ ranks, strength }: Fault, replica: number, replicas: number): number {
    const favoured = ranks.size / this.#ranksPerReplica;
    if (ranks.has(replica * this.#ranksPerReplica)) return 1 + strength;
    return 1 - (strength * favoured) / (replicas - favoured);
  }

  #drawn(weights: readonly number[]): number {
    let left = this.#random.uniform() * weights.reduce((sum, weight) => sum + weight, 0);
    for (const [replica, weight] of weights.entries()) {
      left -= weight;
      if (left < 0) return replica;
    }
    return weights.length - 1;
  }
}
