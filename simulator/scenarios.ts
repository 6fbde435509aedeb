import type { Cause, IncidentKind } from '../protocol/incident.js';
import type { Effect } from './faults.js';

export interface FaultSpec {
  readonly kind: IncidentKind;
  readonly cause: Cause;
  readonly effect: Effect;
  /** Whom it hits: one rank, or all ranks of one stage. */
  readonly target: 'rank' | 'stage';
  readonly strength: number;
  /** Whether it is there from the first step, where the caller does not say. */
  readonly always?: true;
}

export interface Scenario {
  readonly summary: string;
  readonly workload: 'training' | 'serving';
  readonly variesTokens?: true;
  readonly fault?: FaultSpec;
}

const straggler = (cause: Effect, strength = 0.2): FaultSpec => ({
  kind: 'straggler',
  cause,
  effect: cause,
  target: 'rank',
  strength,
});

/** What can be simulated, by name. */
export const SCENARIOS: Readonly<Record<string, Scenario>> = {
  healthy: { summary: 'training; nothing is wrong', workload: 'training' },
  'healthy-tokens-vary': {
    summary: 'training on sequences of varying length; nothing is wrong',
    workload: 'training',
    variesTokens: true,
  },
  straggler: { summary: "training; one rank's GPU is slow", workload: 'training', fault: straggler('compute') },
  'straggler-host': {
    summary: "training; one rank's process starts every step late",
    workload: 'training',
    fault: straggler('host'),
  },
  'straggler-data': {
    summary: "training; one rank's input is late",
    workload: 'training',
    fault: straggler('data'),
  },
  stage: {
    summary: 'training; one pipeline stage has more work than the others',
    workload: 'training',
    // ByteDance-Seed/StragglerAnalysis trace ST: the last stage computes 1.6 times as long as the others.
    fault: {
      kind: 'stage_imbalance',
      cause: 'workload',
      effect: 'compute',
      target: 'stage',
      strength: 0.6,
      always: true,
    },
  },
  'serving-healthy': { summary: 'tensor parallel decoding; nothing is wrong', workload: 'serving' },
  'serving-straggler-host': {
    summary: "tensor parallel decoding; one rank's process launches every step late",
    workload: 'serving',
    // A process that sleeps 4 ms before each launch of a 2.2 ms step, as recorded on H200.
    fault: straggler('host', 1.8),
  },
};
