import * as z from 'zod';
import { DEFAULT_PARAMS, type DetectorParams } from '../detectors/params.js';

const number = (least: number, most: number, description: string, integer = false) => ({
  ...{ least, most, description, integer },
});
type Field = ReturnType<typeof number>;

const EFFECT = number(0.001, 1, 'Smallest share of the step whose loss counts');
const ANY_EFFECT = number(0, 1, 'Smallest share of the step whose loss counts; 0: any');
const ratio = (description: string, least = 1.01, most = 100): Field => number(least, most, description);
const persistence = (steps: string): Field => number(0.05, 1, `Share of ${steps} in which it must be`);
const seconds = (description: string, least = 0): Field => number(least, 86_400, description);

/** Bounds and meaning of what rules may set; beyond the bounds a detector means nothing any more. */
const FIELDS: { readonly [K in keyof DetectorParams]: Readonly<Record<keyof DetectorParams[K], Field>> } = {
  straggler: { min_effect: EFFECT },
  nvlink_stall: {
    ratio: ratio('A transfer is slow from so many times what it took before in the job on'),
    min_effect: ANY_EFFECT,
    persistence: persistence('the last 12 steps'),
  },
  comm_slow: {
    ratio: ratio('A transfer is slow from so many times what it took before in the job on'),
    min_effect: EFFECT,
    persistence: persistence('the last 12 steps'),
  },
  rnic_flap: {
    ratio: ratio('A transfer is a burst from so many times what it took before in the job on'),
    min_effect: EFFECT,
    bursts: number(2, 12, 'So many separate bursts', true),
  },
  comm_hang: {
    steps: number(1, 1000, 'A collective hangs once it lasts so many usual steps'),
    min_seconds: seconds('and at least so long'),
    first_seconds: seconds('How long it must last while no usual step is known: first steps compile', 1),
  },
  tp_slow_path: {
    ratio: ratio('A collective is slow from so many times what the fleet takes on (needs a baseline)'),
    min_effect: ANY_EFFECT,
    persistence: persistence('the last 12 steps'),
  },
  prefill_blocking: {
    ratio: ratio('A step with prefills is slow from so many times a step that decodes as much on'),
    min_effect: EFFECT,
  },
  kv_recompute: { min_effect: EFFECT },
  no_cuda_graph: { min_effect: EFFECT, persistence: persistence('the last 10 decoding steps') },
  sched_imbalance: {
    min_effect: EFFECT,
    persistence: persistence('the last 20 steps'),
    min_waiting: number(1, 1e6, 'A queue counts from so many requests on', true),
    min_seconds: seconds('How long it must last'),
  },
  load_imbalance: {
    ratio: ratio('Work is uneven from so many times the mean tokens on'),
    min_effect: EFFECT,
    persistence: persistence('the last 16 steps'),
  },
  stage_imbalance: {
    ratio: ratio('A stage is too heavy from so many times the others’ compute on'),
    persistence: number(0.1, 1, 'Share of the last 10 steps in which it must be'),
  },
  step_drift: { ratio: ratio('Steps have become slower from so many times what the same work took on') },
  transient_stall: {
    ratio: ratio('A step stalls from so many times the usual on', 1.5, 1000),
    min_seconds: seconds('and so many seconds longer', 0.001),
  },
};

/** Schema of the parameters of each kind that has any. */
export const PARAMS: ReadonlyMap<string, z.ZodType> = new Map(
  Object.entries(FIELDS).map(([kind, fields]) => [
    kind,
    schemaOf(DEFAULT_PARAMS[kind as keyof DetectorParams], fields),
  ]),
);

function schemaOf(defaults: object, fields: Readonly<Record<string, Field>>): z.ZodType {
  const shape = Object.entries(fields).map(([name, { least, most, description, integer }]) => {
    const value = (integer ? z.int() : z.number()).min(least).max(most);
    return [name, value.default((defaults as Record<string, number>)[name] as number).meta({ description })];
  });
  return z.strictObject(Object.fromEntries(shape));
}
