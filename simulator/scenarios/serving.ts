import type { FaultSpec, Scenario } from '../scenario.js';

const decodes = { workload: 'serving', load: 'recorded' } as const;
const serves = { workload: 'serving', load: 'scheduled' } as const;

const eager: FaultSpec = {
  kind: 'no_cuda_graph',
  cause: 'configuration',
  effect: 'eager',
  target: 'job',
  // Recorded: 10.5 ms a step instead of 2.1.
  strength: 4,
};

/** Serving that goes wrong for reasons other than the network. */
export const SERVING_FAULTS: Readonly<Record<string, Scenario>> = {
  'serving-healthy': { ...decodes, summary: 'tensor parallel decoding; nothing is wrong' },
  'serving-scheduled': { ...serves, summary: 'an engine that serves requests; nothing is wrong' },
  'serving-straggler': {
    ...decodes,
    summary: "tensor parallel decoding; one rank's GPU is slow",
    fault: { kind: 'straggler', cause: 'compute', effect: 'compute', target: 'rank', strength: 0.2 },
  },
  'serving-straggler-host': {
    ...decodes,
    summary: "tensor parallel decoding; one rank's process launches every step late",
    // A process that sleeps 4 ms before each launch of a 2.2 ms step, as recorded on H200.
    fault: { kind: 'straggler', cause: 'host', effect: 'host', target: 'rank', strength: 1.8 },
  },
  'serving-straggler-contention': {
    ...decodes,
    summary:
      "tensor parallel decoding; the processes of the host get in each other's way, so that all are late in turn",
    // NVIDIA/srt-slurm PR 332: decode steps of 70 ms instead of 14.
    fault: { kind: 'straggler', cause: 'host', effect: 'contention', target: 'machine', strength: 4 },
  },
  'serving-straggler-launch': {
    ...decodes,
    summary: "tensor parallel decoding; one rank's process launches late all through the step",
    // vllm-project/vllm#52777: 48 ms of launch gaps on one rank in a step of 150.
    fault: { kind: 'straggler', cause: 'host', effect: 'launch', target: 'rank', strength: 0.5 },
  },
  'serving-straggler-replicas': {
    ...serves,
    summary: "tensor parallel replicas that step together; one rank's GPU is slow",
    lockstep: true,
    tensor: true,
    fault: { kind: 'straggler', cause: 'compute', effect: 'compute', target: 'rank', strength: 0.2 },
  },
  'prefill-blocking': {
    ...serves,
    summary: 'an engine that does not cut prompts; long ones come from the onset on',
    mix: 'short-chat',
    concurrency: 16,
    chunked: false,
    fault: { kind: 'prefill_blocking', cause: 'workload', effect: 'prompts', target: 'job', strength: 2 },
  },
  'kv-recompute': {
    ...serves,
    summary: 'an engine whose KV cache is too small for its requests from the onset on',
    concurrency: 24,
    fault: { kind: 'kv_recompute', cause: 'memory', effect: 'kv', target: 'job', strength: 0.5 },
  },
  'no-cuda-graph': { ...serves, summary: 'an engine that launches kernel by kernel from the onset on', fault: eager },
  'no-cuda-graph-from-start': {
    ...serves,
    summary: 'an engine that launches kernel by kernel from the first step on',
    fault: { ...eager, always: true },
  },
  'no-cuda-graph-large-batches': {
    ...serves,
    summary: 'an engine that has graphs for small batches only',
    concurrency: 12,
    // sgl-project/sglang#33483: a ceiling below the batches that come.
    fault: { ...eager, aboveBatch: 8 },
  },
  'sched-imbalance': {
    ...serves,
    summary: 'replicas that step together; some get more requests than the others',
    lockstep: true,
    concurrency: 8,
    maxRunning: 12,
    fault: { kind: 'sched_imbalance', cause: 'workload', effect: 'router', target: 'replicas', strength: 1 },
  },
};
