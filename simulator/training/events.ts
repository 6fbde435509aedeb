import { EVENTS } from '../measured.js';
import { Random } from '../random.js';
import type { TrainingSpec } from '../scenario.js';

/** The healthy and rare of a training job that is not noise: checkpoints, evaluation, loader stalls, collections in turn. */
export class Events {
  readonly #spec: TrainingSpec;
  readonly #random: Random;
  /** When in the cycle each rank collects garbage. */
  readonly #turn: number[];
  /** Input of all ranks is late by so many nominal steps. */
  loaderStall = 0;

  constructor(seed: number, job: string, ranks: number, spec: TrainingSpec) {
    this.#spec = spec;
    this.#random = Random.stream(seed, job, 'rare');
    const turns = Random.stream(seed, job, 'turns');
    this.#turn = Array.from({ length: ranks }, () => turns.below(EVENTS.rotatingGcSteps));
  }

  beginStep(): void {
    const strikes = this.#random.uniform() < EVENTS.loaderStallRate;
    const length = EVENTS.loaderStallMin + (EVENTS.loaderStallMax - EVENTS.loaderStallMin) * this.#random.uniform();
    // A stalled loader is a stall: a look-alike of one has none.
    this.loaderStall = this.#spec.events === 'rare' && strikes ? length : 0;
  }

  /** A collection that this rank does when it is its turn, in nominal steps. */
  collection(rank: number, step: number): number {
    const due = (step + (this.#turn[rank] as number)) % EVENTS.rotatingGcSteps === 0;
    return this.#spec.collections && due ? EVENTS.rotatingGcFactor : 0;
  }

  /** Whether a rank writes a checkpoint after a step. */
  saves(rank: number, step: number): boolean {
    return due(step, this.#every(EVENTS.checkpointSteps)) && (rank === 0 || !this.#spec.savesAlone);
  }

  evaluates(step: number): boolean {
    return this.#spec.events !== undefined && due(step, this.#every(EVENTS.evaluationSteps));
  }

  #every(steps: number): number {
    return this.#spec.events === 'frequent' || this.#spec.savesAlone ? Math.floor(steps / EVENTS.frequent) : steps;
  }
}

/** The last of every so many steps. */
const due = (step: number, every: number): boolean => step % every === every - 1;
