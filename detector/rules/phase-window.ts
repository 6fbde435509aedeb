import { type BySlot, type StepView, stepTimeOf } from '../pipeline/step-view.js';
import { mean, median, quantile, sortedKnown } from '../reference/statistics.js';

/** Whose values a window holds: the job's (median over its ranks), one rank's, or the median of all ranks but one. */
export type Scope = 'job' | { readonly slot: number } | { readonly allBut: number };

/** A fact that an expression needs is unknown: the expression is neither true nor false. */
export class NoValue extends Error {
  override readonly name = 'NoValue';
}

/** Receives the numbers that an expression reads, by how it names them. */
export type Recorder = (name: string, value: number) => void;

/** Statistics of phases over some steps, each computed when it is first asked for. */
export class PhaseWindow {
  readonly #name: string;
  readonly #views: readonly StepView[];
  readonly #scope: Scope;
  readonly #known = new Map<string, WindowStats>();
  #recorder: Recorder | undefined;

  constructor(name: string, views: readonly StepView[], scope: Scope) {
    this.#name = name;
    this.#views = views;
    this.#scope = scope;
  }

  /** Tells `recorder` all that is read from now on. */
  record(recorder: Recorder | undefined): void {
    this.#recorder = recorder;
  }

  get step(): WindowStats {
    const own = this.#scope;
    return this.#stats('step', own === 'job' ? stepTimeOf : (view) => this.#valueOf(view.stepTime));
  }

  get compute(): WindowStats {
    return this.#stats('compute', (view) => this.#valueOf(view.work.compute));
  }

  get memory(): WindowStats {
    return this.#stats('memory', (view) => this.#valueOf(view.work.memory));
  }

  get data(): WindowStats {
    return this.#stats('data', (view) => this.#valueOf(view.work.data));
  }

  get host(): WindowStats {
    return this.#stats('host', (view) => this.#valueOf(view.work.host));
  }

  get gap(): WindowStats {
    return this.#stats('gap', (view) => this.#valueOf(view.gap));
  }

  get tokens_per_second(): number {
    const tokens = mean(this.#views.map((view) => this.#valueOf(view.tokens)));
    const rate = tokens / mean(this.#views.map((view) => stepTimeOf(view) / 1e9));
    if (!Number.isFinite(rate)) throw new NoValue(`${this.#name}.tokens_per_second is not known`);
    this.#recorder?.(`${this.#name}.tokens_per_second`, rate);
    return rate;
  }

  phase(phase: string): WindowStats {
    return this.#stats(`phase("${phase}")`, (view) => {
      const times = view.phases.get(phase);
      return times ? this.#valueOf(times) : Number.NaN;
    });
  }

  #stats(what: string, timeOf: (view: StepView) => number): WindowStats {
    let stats = this.#known.get(what);
    if (!stats) {
      const times = this.#views.map(timeOf);
      const stepTimes = this.#views.map(stepTimeOf);
      const note: Recorder = (name, value) => this.#recorder?.(name, value);
      this.#known.set(what, (stats = new WindowStats(`${this.#name}.${what}`, times, stepTimes, note)));
    }
    return stats;
  }

  #valueOf(values: BySlot): number {
    const scope = this.#scope;
    if (scope === 'job') return median(values);
    if ('slot' in scope) return values[scope.slot] ?? Number.NaN;
    return median(values.filter((_, slot) => slot !== scope.allBut));
  }
}

/** Statistics of one quantity; reading one that is not known throws NoValue. */
export class WindowStats {
  readonly #name: string;
  readonly #times: readonly number[];
  readonly #stepTimes: readonly number[];
  readonly #note: Recorder;
  #sorted: Float64Array | undefined;

  /**
   * @param times nanoseconds, one a step; NaN where not known
   * @param stepTimes of the same steps
   */
  constructor(name: string, times: readonly number[], stepTimes: readonly number[], note: Recorder) {
    this.#name = name;
    this.#times = times;
    this.#stepTimes = stepTimes;
    this.#note = note;
  }

  get mean_ms(): number {
    return this.#read('mean_ms', mean(this.#times) / 1e6);
  }

  get median_ms(): number {
    return this.#read('median_ms', this.#quantile(0.5) / 1e6);
  }

  get p90_ms(): number {
    return this.#read('p90_ms', this.#quantile(0.9) / 1e6);
  }

  get min_ms(): number {
    return this.#read('min_ms', this.#quantile(0) / 1e6);
  }

  get max_ms(): number {
    return this.#read('max_ms', this.#quantile(1) / 1e6);
  }

  /** Of the time of those steps in which it is known. */
  get share(): number {
    let [time, stepTime] = [0, 0];
    this.#times.forEach((each, i) => {
      if (Number.isNaN(each)) return;
      time += each;
      stepTime += this.#stepTimes[i] as number;
    });
    return this.#read('share', time / stepTime);
  }

  /** Steps in which it is known. */
  get steps(): bigint {
    return BigInt(sortedKnown(this.#times).length);
  }

  #quantile(q: number): number {
    return quantile((this.#sorted ??= sortedKnown(this.#times)), q);
  }

  #read(field: string, value: number): number {
    if (!Number.isFinite(value)) throw new NoValue(`${this.#name} is not known in these steps`);
    this.#note(`${this.#name}.${field}`, value);
    return value;
  }
}
