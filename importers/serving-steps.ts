import type { StepMark } from './gpu-steps.js';
import { growingFloat64 } from './growing-column.js';

/** What an iteration of a serving engine works on, in the columns of its rows; -1: not said. */
export interface ServingWork {
  readonly tokens: number;
  readonly prefill_tokens: number;
  readonly decode_tokens: number;
  readonly context_tokens: number;
  readonly batch: number;
}

/** An iteration as the host that launches it annotates it: on the GPU it may run much later. */
export interface Iteration {
  readonly startNs: bigint;
  readonly work: ServingWork;
}

/**
 * As vLLM's workers name their iterations: requests, and in brackets scheduled tokens, of those that prefill (`context`) and
 * of those that decode (`generation`): `execute_context_2(14721)_generation_0(0)`. With detailed annotations
 * `execute_64_context_0(sq0sk0sqsq0sqsk0)_generation_64(sq64sk131072sqsq64sqsk131072)`, where sk sums the lengths of sequences.
 */
const VLLM =
  /^execute_(?:\d+_)?context_(\d+)\((?:sq)?(\d+)(?:sk(\d+))?\w*\)_generation_(\d+)\((?:sq)?(\d+)(?:sk(\d+))?\w*\)$/;

/** Undefined: the name is that of something else. */
export function servingWorkOf(name: string): ServingWork | undefined {
  if (!name.startsWith('execute_')) return undefined;
  const parts = VLLM.exec(name);
  if (!parts) return undefined;
  const [prefills, prefill_tokens, prefillContext, decodes, decode_tokens, decodeContext] = parts
    .slice(1)
    .map(Number) as [...[number, number, number, number, number, number]];
  return {
    ...{ tokens: prefill_tokens + decode_tokens, prefill_tokens, decode_tokens, batch: prefills + decodes },
    context_tokens: Number.isNaN(decodeContext) ? -1 : prefillContext + decodeContext,
  };
}

/** By start, each with its step: that of the profiler's step that it lies in, where each has one of its own; else its place. */
export function numbered(
  iterations: readonly Iteration[],
  profilerSteps: readonly StepMark[],
): (Iteration & { readonly step: number })[] {
  const ordered = [...iterations].sort(byStart);
  const marks = [...profilerSteps].sort(byStart);
  let at = -1;
  const steps = ordered.map(({ startNs }) => {
    while (at + 1 < marks.length && (marks[at + 1] as StepMark).startNs <= startNs) at++;
    return marks[at]?.step;
  });
  const own = !steps.includes(undefined) && new Set(steps).size === steps.length;
  return ordered.map((iteration, i) => ({ ...iteration, step: own ? (steps[i] as number) : i }));
}

/** When the host made the calls that gave the GPU its work. */
export class LaunchTimes {
  readonly #correlation = growingFloat64();
  readonly #ns = growingFloat64();

  push(correlation: number, ns: number): void {
    this.#correlation.push(correlation);
    this.#ns.push(ns);
  }

  byCorrelation(): ReadonlyMap<number, number> {
    const times = new Map<number, number>();
    for (let i = 0; i < this.#ns.length; i++) times.set(this.#correlation.at(i), this.#ns.at(i));
    return times;
  }
}

const byStart = (a: { readonly startNs: bigint }, b: { readonly startNs: bigint }): number =>
  Number(a.startNs - b.startNs);
