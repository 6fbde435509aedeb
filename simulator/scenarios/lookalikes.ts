import type { Scenario } from '../scenario.js';

const serves = { workload: 'serving', load: 'scheduled' } as const;

/** Healthy runs, each of which looks like a kind of fault at first sight. */
export const LOOKALIKES: Readonly<Record<string, Scenario>> = {
  'lookalike-collections': {
    summary: 'training; each rank in its turn stops to collect garbage',
    lookalikeOf: 'straggler',
    workload: 'training',
    collections: true,
    tolerates: ['transient_stall'],
  },
  'lookalike-stages': {
    summary: 'training; pipeline stages differ by a few per cent, as healthy ones do',
    lookalikeOf: 'stage_imbalance',
    workload: 'training',
    unevenStages: true,
  },
  'lookalike-lengths-together': {
    summary: 'training; sequence lengths vary from step to step, alike on all replicas',
    lookalikeOf: 'load_imbalance',
    workload: 'training',
    lengths: 'together',
  },
  'lookalike-experts': {
    summary: 'training with expert parallelism; tokens are spread as evenly as routers do',
    lookalikeOf: 'load_imbalance',
    workload: 'training',
    experts: true,
  },
  'lookalike-lengths-grow': {
    summary: 'training; steps get slower since sequences get longer',
    lookalikeOf: 'step_drift',
    workload: 'training',
    lengths: 'growing',
  },
  'lookalike-transfers-grow': {
    summary: 'tensor parallel training; transfers get longer since sequences do',
    lookalikeOf: 'nvlink_stall',
    workload: 'training',
    lengths: 'growing',
    tensor: true,
  },
  'lookalike-saves': {
    summary: 'training; checkpoints and evaluation of all ranks',
    lookalikeOf: 'transient_stall',
    workload: 'training',
    events: 'frequent',
    opens: true,
  },
  'lookalike-saves-alone': {
    summary: 'training; rank 0 writes the checkpoints, the others wait for it',
    lookalikeOf: 'comm_hang',
    workload: 'training',
    savesAlone: true,
    opens: true,
    tolerates: ['transient_stall'],
  },
  'lookalike-restart': {
    summary: 'training; a restart repeats some steps and begins slowly',
    lookalikeOf: 'transient_stall',
    workload: 'training',
    restarts: 'once',
    opens: true,
  },
  'lookalike-jitter': {
    summary: 'training over several hosts; a busy network, as fast as ever in the median',
    lookalikeOf: 'comm_slow',
    workload: 'training',
    jitters: true,
  },
  'lookalike-port-event': {
    summary: 'training over several hosts; a port goes down and up once and no transfer suffers',
    lookalikeOf: 'rnic_flap',
    workload: 'training',
    blip: true,
  },
  'lookalike-large-batches': {
    summary: 'tensor parallel decoding; larger batches make larger, slower messages',
    lookalikeOf: 'tp_slow_path',
    workload: 'serving',
    load: 'recorded_large',
  },
  'lookalike-long-prefills': {
    ...serves,
    summary: 'an engine for long prompts alone: whole prefills, and nobody waits for a decode',
    lookalikeOf: 'prefill_blocking',
    mix: 'long-prompts',
    chunked: false,
  },
  'lookalike-kv-full': {
    ...serves,
    summary: 'an engine whose KV cache is full and whose requests wait, but none is preempted',
    lookalikeOf: 'kv_recompute',
    concurrency: 24,
    reserves: true,
    tightKv: true,
  },
  'lookalike-eager-prefills': {
    summary: 'tensor parallel decoding; many prefills, launched kernel by kernel as prefills are',
    lookalikeOf: 'no_cuda_graph',
    workload: 'serving',
    load: 'recorded_prefills',
  },
  'lookalike-skew': {
    ...serves,
    summary: 'replicas that step together; requests fall 6 to 4, now here, now there',
    lookalikeOf: 'sched_imbalance',
    lockstep: true,
    routing: 'skewed',
  },
  'lookalike-burst': {
    ...serves,
    summary: 'replicas that step together; the first requests all go to one of them',
    lookalikeOf: 'sched_imbalance',
    lockstep: true,
    routing: 'burst',
  },
};
