import type { Effect } from '../faults.js';
import type { FaultSpec, Scenario } from '../scenario.js';

const straggler = (cause: 'compute' | 'host' | 'data' | 'memory', strength = 0.2): FaultSpec => ({
  kind: 'straggler',
  cause,
  effect: cause,
  target: 'rank',
  strength,
});

const uneven = (effect: Effect, strength: number, target: FaultSpec['target'] = 'job'): FaultSpec => ({
  kind: 'load_imbalance',
  cause: 'workload',
  effect,
  target,
  strength,
});

const stall = (effect: 'host' | 'data', target: FaultSpec['target'], strength: number): FaultSpec => ({
  kind: 'transient_stall',
  cause: effect,
  effect,
  target,
  strength,
  bursts: 'once',
});

const drift: FaultSpec = { kind: 'step_drift', cause: 'unknown', effect: 'drift', target: 'job', strength: 0.4 };

/** Training that goes wrong for reasons other than the network. */
export const TRAINING_FAULTS: Readonly<Record<string, Scenario>> = {
  healthy: { summary: 'training; nothing is wrong', workload: 'training', tolerates: ['transient_stall'] },
  'healthy-tokens-vary': {
    summary: 'training on sequences of varying length; nothing is wrong',
    workload: 'training',
    lengths: 'by_replica',
    tolerates: ['load_imbalance', 'transient_stall'],
  },
  straggler: { summary: "training; one rank's GPU is slow", workload: 'training', fault: straggler('compute') },
  'straggler-host': {
    summary: "training; one rank's process starts every step late",
    workload: 'training',
    fault: straggler('host'),
  },
  'straggler-contention': {
    summary: "training; the processes of one host get in each other's way, so that all are late in turn",
    workload: 'training',
    fault: { kind: 'straggler', cause: 'host', effect: 'contention', target: 'machine', strength: 0.5 },
  },
  'straggler-data': {
    summary: "training; one rank's input is late",
    workload: 'training',
    fault: straggler('data'),
  },
  'straggler-memory': {
    summary: "training; one rank's memory is slow: all of the optimizer, some of forward and backward",
    workload: 'training',
    fault: straggler('memory', 1),
  },
  'straggler-tokens-vary': {
    summary: "training on sequences of varying length; one rank's GPU is slow",
    workload: 'training',
    lengths: 'by_replica',
    fault: straggler('compute', 0.3),
    tolerates: ['load_imbalance'],
  },
  stage: {
    summary: 'training; one pipeline stage has more work than the others',
    workload: 'training',
    // ByteDance-Seed/StragglerAnalysis trace ST: the last stage computes 1.6 times as long as the others.
    fault: {
      kind: 'stage_imbalance',
      // How layers are spread over stages is set by the operator.
      cause: 'configuration',
      effect: 'compute',
      target: 'stage',
      strength: 0.6,
      always: true,
    },
  },
  'load-imbalance': {
    summary: 'training; from the onset each replica draws sequences of its own lengths',
    workload: 'training',
    fault: uneven('lengths', 0.6),
  },
  'load-imbalance-fixed': {
    summary: 'training; every second replica always gets longer sequences',
    workload: 'training',
    fault: uneven('lengths_fixed', 0.5),
  },
  'expert-imbalance': {
    summary: 'training with expert parallelism; the experts of some ranks get most tokens',
    workload: 'training',
    experts: true,
    // deepseek-ai/DeepEP#343: twice as slow as balanced.
    fault: uneven('experts', 1.8, 'experts'),
  },
  'step-drift': { summary: 'training; all ranks get slower and slower', workload: 'training', fault: drift },
  'step-jump': {
    summary: 'training; all ranks are slower from the onset on',
    workload: 'training',
    fault: { ...drift, effect: 'compute' },
  },
  'transient-stall': {
    summary: 'training; the input of all ranks stalls once',
    workload: 'training',
    fault: stall('data', 'job', 20),
    opens: true,
  },
  'transient-stall-rank': {
    summary: "training; one rank's process stops for a while, once",
    workload: 'training',
    fault: stall('host', 'rank', 5),
    opens: true,
  },
  'periodic-stall': {
    summary: 'training; the input of all ranks stalls in every second step',
    workload: 'training',
    // ArrowLuo/CLIP4Clip#58: 45 s and 4 s in turn.
    fault: { ...stall('data', 'job', 10), bursts: 'every_second' },
  },
};
